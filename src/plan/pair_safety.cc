#include "plan/pair_safety.h"

#include <algorithm>
#include <set>
#include <string>

#include "ops/integer_kernels.h"

namespace bitpress::plan {
namespace {

// Nodes whose bias is an integer with a scale of its own: ONNX Runtime has no kernel that adds it,
// so they compute in float.
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

void MarkPairSafe(QuantPlan& plan, const graph::Model& model, const NodeRules& rules,
                  const NodeIndex& nodes) {
  const std::map<std::string, const TensorPlan*> activations = ActivationsOfNodes(plan);
  const std::set<std::string> in_float = NodesWithOwnBias(plan);
  for (TensorPlan& row : plan.tensors) {
    if (row.role != Role::kWeight || row.format != "int8" || row.integer->is_reduced) continue;
    if (!model.IsInitializer(row.value)) continue;
    const std::span<const int64_t> dims = model.Initializer(row.value).dims;
    row.integer->is_pair_safe = std::ranges::any_of(row.uses, [&](const TensorUse& use) {
      const auto activation = activations.find(use.node);
      if (activation == activations.end() || activation->second->format != "uint8") return false;
      if (in_float.contains(use.node)) return false;
      const graph::Node node = nodes.Find(use);
      const bool is_dynamic = activation->second->is_dynamic();
      // Static weights in blocks are multiplied by kernels with sums of their own.
      if (!is_dynamic && row.integer->granularity == Granularity::kPerBlock) return false;
      return rules.For(node, row.value).config.integer_kernels == IntegerKernels::kSafe &&
             ops::PairSums(node, static_cast<size_t>(use.input), dims, is_dynamic).has_value();
    });
  }
}

}  // namespace bitpress::plan
