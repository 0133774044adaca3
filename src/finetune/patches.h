// Reads the inputs of a layer at some positions of one activation, as the columns of a matrix
// (im2col). MomentAccumulator sums them up a few positions at a time, so that the whole matrix
// never exists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "finetune/layer.h"

namespace bitpress::finetune {

class PatchReader {
 public:
  // `input_dims` and `output_dims` are the shapes of the activations of one run. Throws
  // Error(kRuntime) with the node's name if they do not fit the layer. `layer` must outlive the
  // reader.
  PatchReader(const LinearLayer& layer, std::span<const int64_t> input_dims,
              std::span<const int64_t> output_dims);

  int64_t num_positions() const { return num_positions_; }

  // Writes row (group * columns + column) at positions [first, first + count) to out[0 .. count -
  // 1]. Padding reads as 0. REQUIRES: the row and the positions are in the activation.
  void ReadInputRow(const float* input, int64_t row, int64_t first, int64_t count,
                    float* out) const;
  // Writes row (group * rows + row) of the output, likewise.
  void ReadOutputRow(const float* output, int64_t row, int64_t first, int64_t count,
                     float* out) const;

 private:
  // Returns the input's place along dimension d that a tap reads for output place `out`. Places
  // outside [0, input size) are padding.
  int64_t PlaceOf(size_t d, int64_t out, int64_t offset) const;
  void ReadWindows(const float* input, int64_t channel, int64_t tap, int64_t first, int64_t count,
                   float* out) const;
  // Reads `length` neighbours along the last dimension.
  void ReadRow(const float* input, int64_t first, int64_t offset, int64_t length, float* out) const;

  const LinearLayer& layer_;
  int64_t num_positions_ = 0;
  int64_t batch_positions_ = 0;  // positions of one batch element
  int64_t input_channels_ = 0;
  int64_t output_channels_ = 0;
  std::vector<int64_t> input_size_, output_size_, pads_;  // one element a spatial dimension
};

}  // namespace bitpress::finetune
