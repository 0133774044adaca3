// Replaces matrix products and table lookups on packed weights by operators of ONNX Runtime
// (pass use-native-operators). ApplyPlan runs it for Target::kOnnxRuntime, and for the integers of
// Target::kBitpress, which our operators do not know. They become
// com.microsoft MatMulNBits, QMoE and GatherBlockQuantized, which compute from the codes and never
// decode the whole weight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/thread_pool.h"
#include "bitpress/quantize_options.h"
#include "emit/quantize_weights.h"
#include "graph/model.h"
#include "plan/target_profile.h"

namespace bitpress::emit {

using bitpress::AccuracyLevel;

struct NativeOperators {
  size_t num_nodes = 0;
  // The products that may be summed in the fastest order, if that was asked for.
  std::optional<size_t> num_fastest_sums;
  // The products of many rows that could be, if it was not asked for.
  size_t num_slower_sums = 0;
  // The packed weights that are still decoded: name and reason.
  std::vector<std::pair<std::string, std::string>> omissions;
};
constexpr auto FieldsOf(const NativeOperators*) {
  return std::tuple(Field{"num_nodes", &NativeOperators::num_nodes},
                    Field{"num_fastest_sums", &NativeOperators::num_fastest_sums},
                    Field{"num_slower_sums", &NativeOperators::num_slower_sums,
                          "Products of many rows that fastest_sums would make faster on "
                          "processors with AMX."},
                    Field{"left", &NativeOperators::omissions});
}

// Replaces the readers of weights that QuantizeWeights packed. A mixture of experts (MoE) becomes a
// QMoE if all of its weights are codes of 4 or of 8 bits in the same blocks. A weight qualifies if
// it has a native form (weights::NativeWeight), and all of its readers are of these kinds:
//  - MatMul, or Gemm with alpha and beta 1, A not transposed, and a vector or nothing added: the
//    blocks lie along the sums.
//  - Gather from a table: the blocks lie along the rows.
//  - a Transpose in front of such a MatMul, and Gather: a table that is the head, too. The product
//    becomes a MatMulNBits, and the lookup reads the same bytes by a function of standard operators
//    (weights/lookup_nodes.h).
// Weights are written in the layout of their operator. Unpack functions without a user are removed.
// Other weights than those that the target has contributed operators for (kAll or kIntegers) are
// left alone and are no omissions.
// REQUIRES: nothing between the two passes removed `weights` or their Unpack nodes.
NativeOperators UseNativeOperators(graph::Model& model, const QuantizedWeights& weights,
                                   const plan::TargetProfile& target, AccuracyLevel level,
                                   ThreadPool& pool);

}  // namespace bitpress::emit
