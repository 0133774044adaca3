// The operators that multiply (Conv, ConvTranspose, Gemm, MatMul and their fused kin) and, for each
// of their inputs, the axis along which products are summed: blocks run along it in the weight and
// in the activation that meets it. Recurrent operators multiply too, but with states that no
// quantizer can stand on: of those the weights alone are operands. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

// What an input is to a compute operator.
enum class Slot {
  kData,       // an activation, or a constant in its place
  kKernel,     // the weight of a convolution: constant in all but exotic models
  kMatrix,     // either operand of a matrix product: constant or not
  kRecurrent,  // the weights W [directions, gates * hidden, inputs] and R [.., .., hidden]
  kBias,
};

struct Operand {
  Slot slot = Slot::kData;
  // The reduction axis: >= 0, or counted from the end (< 0) where the rank is not known and that is
  // right.
  int64_t axis = 0;
};

// Multiplies activations of the graph with weights or with each other; no recurrent operator.
bool IsComputeOp(const graph::Node& node);

// LSTM, GRU or RNN.
bool IsRecurrent(const graph::Node& node);
bool IsRecurrent(std::string_view op_type);  // of the standard operators

// Whether it reads a tensor's shape only: rounding its values for it is wasted.
bool ReadsShapeOnly(const graph::Node& node);

// Describes one input of a compute operator, or a weight or bias of a recurrent one; nothing for
// other operators and for inputs that do not take part in the product (a fused Add's operand).
// `rank` is that of the input, -1 if unknown.
std::optional<Operand> OperandOf(const graph::Node& node, size_t input_index, int64_t rank);

// The axis, counted from the end, along which input 0 or 1 of a compute operator has the channels
// that the operator sums over, whatever the input's rank; nothing as OperandOf.
std::optional<int64_t> SummedAxis(const graph::Node& node, size_t input_index);

// The axis of a weight's output channels, along which integers have one scale each; nothing where
// it has none, as a vector, or where they lie along several, as in a recurrent weight. REQUIRES:
// OperandOf(node, input_index, rank) gave an operand; rank >= 0.
std::optional<int64_t> ChannelAxis(const graph::Node& node, size_t input_index, int64_t rank);

// What to do with a weight whose reduction axis is shorter than a block, such as a depthwise Conv's
// [C, 1, 3, 3].
enum class ShortAxis {
  kFlatten,   // read the axis and all dimensions after it as one row (the im2col row): blocks of up
              // to kh * kw elements
  kChannels,  // let blocks run along axis 0
  kAxis,      // keep the axis: blocks as short as it is
};

// How blocks lie in a weight of these dimensions: the axis, and whether all dimensions after it are
// read with it as one row.
struct WeightLayout {
  int64_t axis = 0;
  bool flatten = false;
};

// REQUIRES: OperandOf(node, ...) gave `operand`, and operand.axis is a dimension of `dims`. A
// kernel whose reduction is shorter than `block_size` follows `short_axis`; matrices keep their
// axis (no other dimension belongs to the same sum). ConvTranspose kernels [I, O/g, kh, kw] are
// flattened from axis 1, so that a row is one input channel's windows.
WeightLayout LayoutWeight(const graph::Node& node, const Operand& operand,
                          std::span<const int64_t> dims, int64_t block_size, ShortAxis short_axis);

}  // namespace bitpress::ops
