// What products of 8-bit codes lose on x86 processors without VNNI, where sums of two saturate
// (formats/pair_sums.h): computed from the few pairs of a weight that can saturate at all, so that
// every machine can tell what another kind of machine gives. Scalar code; equals
// formats::SaturatingDot minus the exact dot product.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitpress::kernels {

// Two neighbours of one sum whose products saturate for some activations.
struct SaturatingPair {
  int32_t sum = 0;                       // the output channel
  std::array<int32_t, 2> channel = {};   // of the input
  std::array<int32_t, 2> position = {};  // of the kernel, row-major; 0 in matrix products
  std::array<int32_t, 2> weight = {};
  static constexpr size_t kNumFields = 7;
};

// Adds what the products of activations [rows, channels] with a matrix lose to `products`, which
// are [rows, num_sums]. REQUIRES: pairs lie inside channels and num_sums.
void MatrixSaturation(std::span<const SaturatingPair> pairs, const uint8_t* activations,
                      int64_t rows, int64_t channels, int64_t num_sums, int32_t* products);

// How a kernel moves over an image; one entry for each spatial dimension.
struct ConvWindow {
  std::vector<int64_t> input;   // dimensions of the image
  std::vector<int64_t> output;  // of the result
  std::vector<int64_t> kernel, strides, dilations, pads_begin;
};

// The same for one image [channels, window.input...] and the pairs of one sum; `products` are
// [window.output...]. Outside the image lies `padding`, the zero point. REQUIRES: positions lie
// inside the kernel.
void ConvSaturation(std::span<const SaturatingPair> pairs, const uint8_t* image,
                    const ConvWindow& window, uint8_t padding, int32_t* products);

}  // namespace bitpress::kernels
