// The losses of products of 8-bit codes on x86 processors without VNNI, where sums of two products
// saturate (formats/pair_sums.h). With them every machine can tell the results of such a machine.
// They are computed from the few pairs of a weight that can saturate at all. Scalar code; equals
// formats::SaturatingDot minus the exact dot product.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitpress::kernels {

// Two neighbours in one sum whose products saturate for some activations.
struct SaturatingPair {
  int32_t sum = 0;                       // the output channel
  std::array<int32_t, 2> channel = {};   // channels of the input
  std::array<int32_t, 2> position = {};  // places in the kernel, row-major; 0 in matrix products
  std::array<int32_t, 2> weight = {};
  static constexpr size_t kNumFields = 7;
};

// Adds the losses of the products of activations [rows, channels] with a matrix to `products`,
// which are [rows, num_sums]. REQUIRES: pairs lie inside channels and num_sums.
void MatrixSaturation(std::span<const SaturatingPair> pairs, const uint8_t* activations,
                      int64_t rows, int64_t channels, int64_t num_sums, int32_t* products);

// The way of a kernel over an image, with one entry for each spatial dimension.
struct ConvWindow {
  std::vector<int64_t> input;   // dimensions of the image
  std::vector<int64_t> output;  // dimensions of the result
  std::vector<int64_t> kernel, strides, dilations, pads_begin;
};

// Adds the losses of one image [channels, window.input...] and the pairs of one sum to `products`,
// which are [window.output...]. `padding`, the zero point, lies outside the image. REQUIRES:
// positions lie inside the kernel.
void ConvSaturation(std::span<const SaturatingPair> pairs, const uint8_t* image,
                    const ConvWindow& window, uint8_t padding, int32_t* products);

}  // namespace bitpress::kernels
