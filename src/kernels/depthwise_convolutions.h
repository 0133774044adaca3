// Convolutions in which every channel has a kernel of its own (depthwise). They are chains of
// multiply-adds of floats, for which 16 channels of a position lie next to each other: vectors are
// full whatever the width of a plane, strides and padding cost nothing, and what is loaded is
// aligned. Internal to kernels/block_convolutions.h.
//
// A task takes its channels through the rows of a plane. It quantizes the rows that the next
// outputs need, turns them from channels of positions to positions of channels, multiplies, and
// turns the sums back. Only the rows that a kernel reaches are kept, which stay in the cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/block_convolutions.h"
#include "kernels/convolution_task.h"
#include "kernels/convolution_weights.h"
#include "kernels/fake_quantize.h"

namespace bitpress::kernels {

class DepthwiseConvolution {
 public:
  // REQUIRES: weights.is_depthwise(). The arguments' memory outlives it.
  DepthwiseConvolution(const ConvolutionWeights& weights, const formats::ConvolutionShape& shape,
                       const float* x, const ConvolutionOutput& output);

  size_t num_tasks() const { return images_ * chunks_ * tiles_; }
  void RunTask(size_t task) const;

 private:
  struct Rows;
  // Convolves output rows [begin, end) of an image for `count` channels from `channel` on.
  void RunSpan(size_t image, size_t channel, size_t count, size_t begin, size_t end,
               Rows& rows) const;
  // Makes rows [begin, end) of the padded input ready.
  void FillRows(size_t image, size_t channel, size_t count, size_t begin, size_t end,
                Rows& rows) const;

  const ConvolutionWeights& weights_;
  formats::ConvolutionShape shape_;
  const float* x_;
  ConvolutionOutput output_;
  FakeQuantizer quantizer_;
  size_t images_, out_height_, out_width_;
  size_t span_ = 0;         // channels that are taken through the rows together: whole blocks
  size_t pitch_ = 0;        // positions of a row with its padding
  size_t piece_rows_ = 1;   // output rows whose sums are turned back together
  size_t ring_ = 1;         // rows that are kept
  size_t most_filled_ = 1;  // rows that are quantized together
  size_t channels_per_chunk_ = 0, chunks_ = 0;
  size_t rows_per_tile_ = 0, tiles_ = 0;
};

}  // namespace bitpress::kernels
