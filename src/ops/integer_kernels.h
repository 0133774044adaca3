// How ONNX Runtime's kernels for 8-bit integers add the products of a weight on x86 processors
// without VNNI: which elements of the weight are neighbours along a sum, whose two products are
// added in saturating 16 bits (formats/pair_sums.h). Plans, weights and the check ask here. Pure.
//
// Holds for ONNX Runtime 1.20 to 1.31 on AVX2 and on AVX-512 without VNNI, as measured on its own
// kernels (tests/no_vnni/kernels_test.py):
//
//   operator                              weight of the pair sums                  neighbours
//   MatMulInteger, QLinearMatMul, QGemm   int8 behind uint8 activations            k, k + 1
//   QLinearConv                           the same                                 channels of the
//                                         group, then kernel columns, then rows: [kh, kw, channel]
//   DynamicQuantizeLSTM                   int8                                     inputs, or
//   states
//
// No kernel saturates for uint8 weights or for int8 activations. ConvInteger and depthwise
// QLinearConv (one channel in and out of each group) never do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/model.h"

namespace bitpress::ops {

// The sums that a weight takes part in, as positions in the weight: sum s adds up the elements
// ElementOf(s, 0) to ElementOf(s, length - 1), and elements 2i and 2i + 1 of it are neighbours.
struct SumLayout {
  int64_t num_sums = 0;
  int64_t length = 0;
  int64_t inner = 1;         // sums side by side in memory
  int64_t outer_stride = 0;  // elements from one such row of sums to the next
  int64_t channels = 1;      // input channels of a sum; they are added before the next position
  int64_t channel_stride = 1;
  int64_t position_stride = 1;  // of the kernel's positions
  int64_t sums_per_group = 1;   // sums that read the same input channels

  size_t ElementOf(int64_t sum, int64_t i) const {
    return static_cast<size_t>(sum / inner * outer_stride + sum % inner +
                               i % channels * channel_stride + i / channels * position_stride);
  }
  // Which channel of the activation the element meets.
  size_t ChannelOf(int64_t sum, int64_t i) const {
    return static_cast<size_t>(sum / sums_per_group * channels + i % channels);
  }
  bool operator==(const SumLayout&) const = default;
};

// A convolution's weight [outputs, channels of a group, spatial...]; nothing where it is depthwise.
// REQUIRES: at least three dims, group >= 1 divides dims[0].
std::optional<SumLayout> ConvSums(std::span<const int64_t> dims, int64_t group);

// The dimension of a matrix along which its products are summed.
enum class SummedDim {
  kSecondLast,  // [..., k, n], as MatMul reads it
  kLast,        // [..., n, k], transposed
};
// Returns the sums of a matrix. REQUIRES: at least two dims.
SumLayout MatrixSums(std::span<const int64_t> dims, SummedDim summed);

// Returns the sums of a recurrent weight [directions, gates * hidden, inputs]. REQUIRES: three
// dims.
SumLayout RecurrentSums(std::span<const int64_t> dims);

// Returns the sums of a weight, input `input` of a float operator, once its activations are uint8
// and the weight int8; nothing where the kernel that takes its place never saturates, and for
// operators that have none. `is_dynamic`: the activation's scale is computed at every inference.
std::optional<SumLayout> PairSums(const graph::Node& node, size_t input,
                                  std::span<const int64_t> dims, bool is_dynamic);

}  // namespace bitpress::ops
