#include "plan/pair_safety.h"

#include <optional>
#include <set>
#include <string>

#include "ops/integer_kernels.h"
#include "ops/operator_traits.h"

namespace bitpress::plan {
namespace {

// Returns the nodes whose bias is an integer with a scale of its own. ONNX Runtime has no kernel
// that adds it, so they compute in float.
std::set<std::string> NodesWithOwnBias(const QuantPlan& plan) {
  std::set<std::string> nodes;
  for (const TensorPlan& row : plan.tensors) {
    const bool is_own = row.role == Role::kBias && row.integer && !row.has_scale_of_products();
    if (!is_own) continue;
    for (const TensorUse& use : row.uses) nodes.insert(use.node);
  }
  return nodes;
}

}  // namespace

std::map<std::string, const TensorPlan*> ActivationsOfNodes(const QuantPlan& plan) {
  std::map<std::string, const TensorPlan*> activations;
  for (const TensorPlan& row : plan.tensors) {
    if (row.role != Role::kActivation || !row.integer) continue;
    for (const TensorUse& use : row.uses) {
      if (use.input == 0) activations.emplace(use.node, &row);
    }
  }
  return activations;
}

bool IsMultipliedAsBytes(const TensorPlan& activation) {
  return activation.format == "uint8" || (activation.format == "int8" && !activation.is_dynamic());
}

void MarkPairSafe(QuantPlan& plan, const graph::Model& model, const NodeRules& rules,
                  const NodeIndex& nodes) {
  const std::map<std::string, const TensorPlan*> activations = ActivationsOfNodes(plan);
  const std::set<std::string> in_float = NodesWithOwnBias(plan);
  for (TensorPlan& row : plan.tensors) {
    if (row.role != Role::kWeight || row.format != "int8" || row.integer->is_reduced) continue;
    if (!model.IsInitializer(row.value)) continue;
    const std::span<const int64_t> dims = model.Initializer(row.value).dims;
    // Returns the kernels that a use must be right for; nothing if it cannot saturate.
    const auto kernels_of = [&](const TensorUse& use) -> std::optional<IntegerKernels> {
      const auto activation = activations.find(use.node);
      if (activation == activations.end() || !IsMultipliedAsBytes(*activation->second)) return {};
      if (in_float.contains(use.node)) return {};
      const graph::Node node = nodes.Find(use);
      const bool is_dynamic = activation->second->is_dynamic();
      // Static weights in blocks are multiplied by kernels with sums of their own.
      if (!is_dynamic && row.integer->granularity == Granularity::kPerBlock) return {};
      if (!ops::PairSums(node, static_cast<size_t>(use.input), dims, is_dynamic)) return {};
      return rules.For(node, row.value).config.integer_kernels;
    };
    row.integer->may_be_unsigned = row.integer->is_symmetric;
    for (const TensorUse& use : row.uses) {
      const std::optional<IntegerKernels> kernels = kernels_of(use);
      const bool is_safe = kernels == IntegerKernels::kSafe || kernels == IntegerKernels::kSafeInt8;
      row.integer->is_pair_safe |= is_safe;
      // Processors that keep int8 activations have no kernels of int8 by uint8.
      row.integer->may_be_unsigned &= kernels == IntegerKernels::kSafe &&
                                      activations.at(use.node)->format == "uint8" &&
                                      !ops::TraitsNamed(use.op_type).is_recurrent();
    }
  }
}

}  // namespace bitpress::plan
