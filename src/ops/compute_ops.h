// The operands of operators that multiply (OperatorTraits::product). Plans, searches and reports
// ask here which inputs are multiplied, and along which axis the products are summed. Blocks run
// along that axis in the weight and in the activation that meets it. Pure.
//
// Recurrent operators multiply too, but with states that no quantizer can stand on, and a mixture
// of experts with what it computes itself: only their weights are operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/model.h"

namespace bitpress::ops {

// The role of an input in a compute operator.
enum class Slot {
  kData,    // an activation, or a constant in its place
  kKernel,  // the weight of a convolution: constant in all but exotic models
  kMatrix,  // either operand of a matrix product: constant or not
  // A stack of matrices whose last axis is summed: the weights W [directions, gates * hidden,
  // inputs] and R [.., .., hidden] of a recurrent operator, or those of experts [experts, outputs,
  // inputs].
  kStack,
  kBias,
};

// An input that takes part in a product.
struct Operand {
  Slot slot = Slot::kData;
  // The axis along which products are summed. It is negative, counted from the end, for matrices
  // and biases of unknown rank.
  int64_t axis = 0;
};

// Returns the role of one input of a compute operator, or of a weight or bias of a recurrent one.
// Returns nothing for other operators, and for inputs that do not take part in the product, such as
// the operand of a fused Add. `rank` is the input's, -1 if it is not known.
std::optional<Operand> OperandOf(const graph::Node& node, size_t input_index, int64_t rank);

// Returns the axis along which input 0 or 1 of a compute operator has the channels that are summed
// over. The axis does not depend on the input's rank: it is counted from the end, but for images
// (Conv) from the front. Returns nothing where OperandOf does.
std::optional<int64_t> SummedAxis(const graph::Node& node, size_t input_index);

// Returns the axis of a weight's output channels: along it integers have one scale for each index.
// Returns nothing for a vector, which has no such axis, for a recurrent weight, whose channels lie
// along several axes, and where OperandOf gives no operand.
std::optional<int64_t> ChannelAxis(const graph::Node& node, size_t input_index, int64_t rank);

// The layout of blocks in a weight whose reduction axis is shorter than a block, such as the
// [C, 1, 3, 3] of a depthwise Conv.
enum class ShortAxis {
  kFlatten,   // the axis and all dimensions after it are read as one row (the im2col row), so that
              // blocks have up to kh * kw elements
  kChannels,  // blocks run along axis 0
  kAxis,      // the axis stays, and blocks are as short as it is
};

// The place of blocks in a weight.
struct WeightLayout {
  int64_t axis = 0;      // blocks run along it
  bool flatten = false;  // the axis and all dimensions after it are read as one row
};

// Returns the layout of blocks of `block_size` elements in a weight. A kernel whose reduction is
// shorter than a block follows `short_axis`. Matrices keep their axis, because no other dimension
// belongs to the same sum. ConvTranspose kernels [I, O/g, kh, kw] are flattened from axis 1, so
// that a row holds the windows of one input channel. REQUIRES: OperandOf(node, ...) gave `operand`,
// and operand.axis is a dimension of `dims`.
WeightLayout LayoutWeight(const graph::Node& node, const Operand& operand,
                          std::span<const int64_t> dims, int64_t block_size, ShortAxis short_axis);

}  // namespace bitpress::ops
