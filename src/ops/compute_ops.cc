#include "ops/compute_ops.h"

#include <algorithm>

#include "base/check.h"
#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

// Returns the axis of a matrix product's operand along which products are summed. transA and transB
// swap the last two dimensions; before that, transBatchA and transBatchB (FusedMatMul) move the
// first dimension behind the batch.
int64_t MatMulAxis(const graph::Node& node, size_t input_index, int64_t rank) {
  const bool is_left = input_index == 0;
  const bool is_transposed = node.GetInt(is_left ? "transA" : "transB", 0) != 0;
  const bool is_batch_transposed = node.GetInt(is_left ? "transBatchA" : "transBatchB", 0) != 0;
  if (rank == 1) return 0;
  const bool is_last = is_left != is_transposed;
  if (!is_last && is_batch_transposed) return 0;
  const int64_t from_end = is_last ? -1 : -2;
  return rank < 0 ? from_end : rank + from_end;
}

}  // namespace

std::optional<Operand> OperandOf(const graph::Node& node, size_t input_index, int64_t rank) {
  const Operand bias{Slot::kBias, rank > 0 ? rank - 1 : rank == 0 ? 0 : -1};
  const Product product = TraitsOf(node).product;
  if (product == Product::kRecurrent) {  // X, W, R, B, sequence lengths, states
    if (input_index == 3) return bias;
    const bool is_weight = input_index == 1 || input_index == 2;
    return is_weight ? std::optional(Operand{Slot::kStack, 2}) : std::nullopt;
  }
  if (product == Product::kExperts) {  // rows, router, and then weights and biases in turns
    const bool is_weight = input_index >= 2 && input_index % 2 == 0;
    return is_weight ? std::optional(Operand{Slot::kStack, 2}) : std::nullopt;
  }
  if (!TraitsOf(node).is_product() || input_index > 2) return std::nullopt;
  if (input_index == 2) return bias;
  const bool is_first = input_index == 0;
  if (product == Product::kConv) return Operand{is_first ? Slot::kData : Slot::kKernel, 1};
  if (product == Product::kConvTranspose) {
    return Operand{is_first ? Slot::kData : Slot::kKernel, is_first ? 1 : 0};
  }
  if (product == Product::kMatMul) {
    return Operand{Slot::kMatrix, MatMulAxis(node, input_index, rank)};
  }
  const bool is_transposed = node.GetInt(is_first ? "transA" : "transB", 0) != 0;
  return Operand{Slot::kMatrix, is_first != is_transposed ? 1 : 0};
}

std::optional<int64_t> SummedAxis(const graph::Node& node, size_t input_index) {
  const std::optional<Operand> operand = OperandOf(node, input_index, -1);
  if (!operand) return std::nullopt;
  // A Gemm's inputs have two dimensions, and their axes are counted from the front.
  const bool is_gemm = operand->slot == Slot::kMatrix && operand->axis >= 0;
  return is_gemm ? operand->axis - 2 : operand->axis;
}

std::optional<int64_t> ChannelAxis(const graph::Node& node, size_t input_index, int64_t rank) {
  const OperatorTraits& traits = TraitsOf(node);
  const std::optional<Operand> operand = OperandOf(node, input_index, rank);
  if (traits.has_weights_only() || !operand || rank < 2) return std::nullopt;
  if (traits.product == Product::kConv) return 0;
  if (traits.product == Product::kConvTranspose) return 1;
  // The one of the last two dimensions that is not summed over.
  return operand->axis == rank - 1 ? rank - 2 : rank - 1;
}

WeightLayout LayoutWeight(const graph::Node& node, const Operand& operand,
                          std::span<const int64_t> dims, int64_t block_size, ShortAxis short_axis) {
  BITPRESS_DCHECK(operand.axis >= 0 && static_cast<size_t>(operand.axis) < dims.size());
  const WeightLayout plain{operand.axis, false};
  if (operand.slot != Slot::kKernel || block_size == 0) return plain;
  const bool is_transposed = TraitsOf(node).product == Product::kConvTranspose;
  int64_t reduction = dims[static_cast<size_t>(operand.axis)];
  // A ConvTranspose kernel holds the channels of all groups along axis 0; a sum stays inside one
  // group.
  if (is_transposed) reduction /= std::max<int64_t>(1, node.GetInt("group", 1));
  if (reduction >= block_size) return plain;
  switch (short_axis) {
    case ShortAxis::kAxis:
      return plain;
    case ShortAxis::kChannels:
      return {0, false};
    case ShortAxis::kFlatten:
      return dims.size() > 2 ? WeightLayout{1, true} : plain;
  }
  return plain;
}

}  // namespace bitpress::ops
