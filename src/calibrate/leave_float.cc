#include "calibrate/leave_float.h"

#include <algorithm>
#include <utility>

#include "ops/operator_traits.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

constexpr std::string_view kIdle = "no operator around it computes on integers any more";

std::set<std::string> NamesOf(const plan::NeededQdq& needed) {
  std::set<std::string> names;
  for (const plan::QdqValue& value : needed.values) names.insert(value.name);
  return names;
}

std::set<std::string> Without(std::set<std::string> values, const std::set<std::string>& left) {
  std::erase_if(values, [&](const std::string& value) { return left.contains(value); });
  return values;
}

// Lets readers that compute in float read the float where there is one.
void DropUses(plan::ResolvedPlan& resolved, const plan::NeededQdq& needed,
              const plan::NodeIndex& index) {
  std::map<std::string, const plan::QdqValue*> values;
  for (const plan::QdqValue& value : needed.values) values[value.name] = &value;
  for (TensorPlan& row : resolved.plan.tensors) {
    if (row.role != plan::Role::kActivation || !row.integer || row.is_graph_output) continue;
    const auto found = values.find(row.value);
    if (found == values.end()) continue;
    std::erase_if(row.uses, [&](const plan::TensorUse& use) {
      const graph::Node node = index.Find(use);
      return std::ranges::none_of(found->second->readers, [&](const graph::Use& reader) {
        return reader.node == node && reader.input_index == static_cast<size_t>(use.input);
      });
    });
  }
}

// Frees the weights and biases of products of floats from what integers ask of them.
void ReleaseConstants(plan::ResolvedPlan& resolved, const plan::NeededQdq& needed,
                      const plan::NodeIndex& index, std::string_view who) {
  for (TensorPlan& row : resolved.plan.tensors) {
    if (!row.integer || row.role == plan::Role::kActivation) continue;
    const bool multiplies_integers = std::ranges::any_of(row.uses, [&](const plan::TensorUse& use) {
      const graph::Node node = index.Find(use);
      return !ops::TraitsOf(node).is_product() || needed.operators.contains(node.output(0));
    });
    if (multiplies_integers) continue;
    if (row.has_scale_of_products()) {
      MakeFloatRow(row, fmt::format("{}: the products that it is added to are floats", who));
    } else {
      row.integer->is_pair_safe = false;
      row.integer->may_be_unsigned = false;
    }
  }
}

}  // namespace

void MakeFloatRow(TensorPlan& row, std::string reason) {
  TensorPlan before = std::exchange(row, TensorPlan());
  row.value = std::move(before.value);
  row.role = before.role;
  row.uses = std::move(before.uses);
  row.is_graph_output = before.is_graph_output;
  row.reason = std::move(reason);
}

std::set<std::string> IntegerValues(const plan::ResolvedPlan& resolved) {
  std::set<std::string> values;
  for (const TensorPlan& row : resolved.plan.tensors) {
    const bool is_integer = row.role == plan::Role::kActivation && row.integer &&
                            resolved.scales.contains(plan::ScaleKeyOf(row));
    if (is_integer) values.insert(row.value);
  }
  return values;
}

std::set<std::string> IdleValues(const graph::Model& model, const std::set<std::string>& integers,
                                 const std::set<std::string>& left) {
  const std::set<std::string> before = NamesOf(plan::NeededValues(model, integers));
  return Without(Without(before, NamesOf(plan::NeededValues(model, Without(integers, left)))),
                 left);
}

size_t LeaveFloat(plan::ResolvedPlan& resolved, const graph::Model& model,
                  const std::map<std::string, std::string>& reasons, std::string_view who) {
  const std::set<std::string> integers = IntegerValues(resolved);
  std::set<std::string> left;
  for (const auto& [value, reason] : reasons) left.insert(value);
  left.merge(IdleValues(model, integers, left));
  const plan::NeededQdq needed = plan::NeededValues(model, Without(integers, left));
  size_t num_left = 0;
  for (TensorPlan& row : resolved.plan.tensors) {
    if (row.role != plan::Role::kActivation || !row.integer || !left.contains(row.value)) continue;
    const auto found = reasons.find(row.value);
    const std::string reason(found == reasons.end() ? kIdle : std::string_view(found->second));
    resolved.scales.erase(plan::ScaleKeyOf(row));
    resolved.left_float.emplace_back(row.value, fmt::format("{}: {}", who, reason));
    MakeFloatRow(row, fmt::format("{}: {}", who, reason));
    ++num_left;
  }
  const plan::NodeIndex index(model);
  DropUses(resolved, needed, index);
  ReleaseConstants(resolved, needed, index, who);
  return num_left;
}

}  // namespace bitpress::calibrate
