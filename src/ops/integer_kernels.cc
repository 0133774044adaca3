#include "ops/integer_kernels.h"

#include "base/check.h"
#include "base/tensor.h"
#include "ops/operator_traits.h"

namespace bitpress::ops {

std::optional<SumLayout> ConvSums(std::span<const int64_t> dims, int64_t group) {
  BITPRESS_DCHECK(dims.size() >= 3 && group >= 1 && dims[0] % group == 0);
  const int64_t outputs_of_group = dims[0] / group;
  if (dims[1] == 1 && outputs_of_group == 1) return std::nullopt;
  const int64_t positions = NumElements(dims.subspan(2));
  SumLayout sums;
  sums.num_sums = dims[0];
  sums.length = dims[1] * positions;
  sums.outer_stride = sums.length;
  sums.channels = dims[1];
  sums.channel_stride = positions;
  sums.sums_per_group = outputs_of_group;
  return sums;
}

SumLayout MatrixSums(std::span<const int64_t> dims, SummedDim summed) {
  BITPRESS_DCHECK(dims.size() >= 2);
  const bool is_transposed = summed == SummedDim::kLast;
  const int64_t rows = dims[dims.size() - 2];
  const int64_t columns = dims[dims.size() - 1];
  SumLayout sums;
  sums.num_sums = NumElements(dims.first(dims.size() - 2)) * (is_transposed ? rows : columns);
  sums.length = sums.channels = is_transposed ? columns : rows;
  sums.inner = is_transposed ? 1 : columns;
  sums.outer_stride = is_transposed ? columns : rows * columns;
  sums.channel_stride = is_transposed ? 1 : columns;
  sums.sums_per_group = sums.num_sums;
  return sums;
}

SumLayout RecurrentSums(std::span<const int64_t> dims) {
  BITPRESS_DCHECK(dims.size() == 3);
  return MatrixSums(dims, SummedDim::kLast);
}

std::optional<SumLayout> PairSums(const graph::Node& node, size_t input,
                                  std::span<const int64_t> dims, bool is_dynamic) {
  const OperatorTraits& traits = TraitsOf(node);
  if (traits.is_recurrent()) {
    const bool is_weight = input == 1 || input == 2;
    const bool has_kernel = is_dynamic && !traits.dynamic.empty();
    return has_kernel && is_weight && dims.size() == 3 ? std::optional(RecurrentSums(dims))
                                                       : std::nullopt;
  }
  if (input != 1 || NumElements(dims) == 0) return std::nullopt;
  if (traits.product == Product::kConv) {
    // ConvInteger, of dynamic models, adds in 32 bits.
    const int64_t group = node.GetInt("group", 1);
    if (is_dynamic || dims.size() < 3 || group < 1 || dims[0] % group != 0) return std::nullopt;
    return ConvSums(dims, group);
  }
  if (!traits.is_matrix_product() || dims.size() < 2) return std::nullopt;
  return MatrixSums(dims,
                    node.GetInt("transB", 0) != 0 ? SummedDim::kLast : SummedDim::kSecondLast);
}

}  // namespace bitpress::ops
