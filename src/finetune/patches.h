// What a layer reads at each position of one activation, as columns of a matrix: im2col, a few
// positions at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "finetune/layer.h"

namespace bitpress::finetune {

class PatchReader {
 public:
  // `input_dims` and `output_dims` are those of one run. Throws Error(kRuntime) naming the node if
  // they do not fit the layer.
  PatchReader(const LinearLayer& layer, std::span<const int64_t> input_dims,
              std::span<const int64_t> output_dims);

  int64_t num_positions() const { return num_positions_; }

  // Row (group * columns + column) of positions [first, first + count) to
  // out[row * stride + 0 .. count - 1]. Padding reads as 0.
  void ReadInputRow(const float* input, int64_t row, int64_t first, int64_t count,
                    float* out) const;
  // Row (group * rows + row) of the output, likewise.
  void ReadOutputRow(const float* output, int64_t row, int64_t first, int64_t count,
                     float* out) const;

 private:
  int64_t PlaceOf(size_t d, int64_t out, int64_t offset) const;
  void ReadWindows(const float* input, int64_t channel, int64_t tap, int64_t first, int64_t count,
                   float* out) const;
  void ReadRow(const float* input, int64_t first, int64_t offset, int64_t length, float* out) const;

  const LinearLayer& layer_;
  int64_t num_positions_ = 0;
  int64_t batch_positions_ = 0;  // positions of one batch element
  int64_t input_channels_ = 0;
  int64_t output_channels_ = 0;
  std::vector<int64_t> input_size_, output_size_, pads_;  // spatial
};

}  // namespace bitpress::finetune
