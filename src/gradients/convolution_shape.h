// The shapes of a two-dimensional convolution in one run, and the windows of its inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gradients/rules.h"

namespace bitpress::gradients {

// The attributes of Conv. One spatial dimension is taken as the second one of two.
struct ConvolutionWindow {
  int64_t kernel[2] = {1, 1}, strides[2] = {1, 1}, dilations[2] = {1, 1};
  int64_t pads[4] = {0, 0, 0, 0};  // top, left, bottom, right
  int64_t groups = 1;
  std::string auto_pad = "NOTSET";
};

struct ConvolutionShape {
  size_t images = 0, groups = 1;
  size_t inputs = 0, outputs = 0;  // channels of one group
  size_t height = 0, width = 0;
  size_t out_height = 0, out_width = 0;
  size_t kernel[2] = {1, 1}, strides[2] = {1, 1}, dilations[2] = {1, 1};
  size_t pads[4] = {0, 0, 0, 0};

  size_t num_taps() const { return kernel[0] * kernel[1]; }
  size_t depth() const { return inputs * num_taps(); }
  size_t positions() const { return out_height * out_width; }
  size_t input_plane() const { return height * width; }
  // Returns whether each output position reads the input at the same position.
  bool is_pointwise() const;
  bool is_depthwise() const { return inputs == 1 && groups > 1; }
};

// Returns the shapes for inputs of these dimensions. Throws Error(kInvalidArgument) if they do not
// fit.
ConvolutionShape ShapeOf(const ConvolutionWindow& window, std::span<const int64_t> input,
                         std::span<const int64_t> weight);

// Writes the row of im2col of one channel and tap for the output positions [begin, end).
template <typename T>
void ReadTap(const ConvolutionShape& shape, const T* plane, size_t tap, size_t begin, size_t end,
             T* out);
// Adds such a row to the input's plane.
template <typename T>
void AddTap(const ConvolutionShape& shape, const T* row, size_t tap, size_t begin, size_t end,
            T* plane);

}  // namespace bitpress::gradients
