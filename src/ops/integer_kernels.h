// The elements of a weight that are neighbours in the sums of ONNX Runtime's 8-bit integer kernels.
// On x86 processors without VNNI these kernels add the two products of neighbours in saturating 16
// bits (formats/pair_sums.h). Plans, weights and the check ask here which sums may saturate. Pure.
//
// The table holds for ONNX Runtime 1.20 to 1.31 on AVX2 and on AVX-512 without VNNI, as measured on
// its own kernels (tests/no_vnni/kernels_test.py):
//
//   operator                              weight that saturates           neighbours
//   MatMulInteger, QLinearMatMul, QGemm   int8 behind uint8 activations   k, k + 1
//   QLinearConv                           int8 behind uint8 activations   [kh, kw, channel of
//   group] DynamicQuantizeLSTM                   int8                            inputs, or states
//
// The neighbours of a QLinearConv run over the channels of the group first, then over the kernel's
// columns, then over its rows. No kernel saturates for uint8 weights or for int8 activations. But
// int8 activations between QuantizeLinear and DequantizeLinear are uint8 in the session: ONNX
// Runtime adds 128 to their codes on processors whose kernels want that.
// ConvInteger and depthwise QLinearConv (one channel in and out of each group) never saturate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/model.h"

namespace bitpress::ops {

// The sums that a weight takes part in, as positions in the weight. Sum s adds up the elements
// ElementOf(s, 0) to ElementOf(s, length - 1). Its elements 2i and 2i + 1 are neighbours.
struct SumLayout {
  int64_t num_sums = 0;
  int64_t length = 0;
  int64_t inner = 1;         // sums side by side in memory
  int64_t outer_stride = 0;  // elements from one such row of sums to the next
  int64_t channels = 1;      // input channels of a sum, added before the next kernel position
  int64_t channel_stride = 1;
  int64_t position_stride = 1;  // elements from one kernel position to the next
  int64_t sums_per_group = 1;   // number of sums that read the same input channels

  // Returns the position in the weight of element `i` of a sum.
  size_t ElementOf(int64_t sum, int64_t i) const {
    return static_cast<size_t>(sum / inner * outer_stride + sum % inner +
                               i % channels * channel_stride + i / channels * position_stride);
  }
  // Returns the channel of the activation that element `i` of a sum is multiplied with.
  size_t ChannelOf(int64_t sum, int64_t i) const {
    return static_cast<size_t>(sum / sums_per_group * channels + i % channels);
  }
  bool operator==(const SumLayout&) const = default;
};

// Returns the sums of a convolution's weight [outputs, channels of a group, spatial...]; nothing if
// it is depthwise. REQUIRES: at least three dims, group >= 1 divides dims[0].
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

// Returns the sums of a weight that is input `input` of a float operator, as the integer kernel
// that replaces the operator adds them: activations are uint8 then, and the weight is int8. Returns
// nothing if that kernel never saturates, or if the operator has none. `is_dynamic` says that the
// activation's scale is computed at every inference.
std::optional<SumLayout> PairSums(const graph::Node& node, size_t input,
                                  std::span<const int64_t> dims, bool is_dynamic);

}  // namespace bitpress::ops
