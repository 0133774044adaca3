#include "plan/mixed_values.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace bitpress::plan {
namespace {

constexpr std::array<std::string_view, 3> kScoring = {"Sigmoid", "HardSigmoid", "Softmax"};
constexpr std::array<std::string_view, 7> kMoving = {"Flatten", "Identity",  "Reshape",  "Slice",
                                                     "Squeeze", "Transpose", "Unsqueeze"};

bool IsAmong(const graph::Node& node, std::span<const std::string_view> op_types) {
  return node.domain().empty() && std::ranges::count(op_types, node.op_type()) > 0;
}

}  // namespace

std::set<std::string> MixedValues(const graph::Model& model) {
  std::set<std::string> scores, mixed;
  // Nodes are in topological order.
  for (const graph::Node& node : model.AllNodes()) {
    if (node.num_inputs() == 0 || node.num_outputs() == 0) continue;
    const std::string& output = node.output(0);
    if (IsAmong(node, kScoring)) scores.insert(output);
    if (IsAmong(node, kMoving)) {
      if (scores.contains(node.input(0))) scores.insert(output);
      if (mixed.contains(node.input(0))) mixed.insert(output);
    }
    if (!node.domain().empty() || node.op_type() != "Concat") continue;
    size_t num_scores = 0, num_others = 0;
    bool is_mixed = false;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      is_mixed |= mixed.contains(value);
      ++(scores.contains(value) ? num_scores : num_others);
    }
    if (is_mixed || (num_scores > 0 && num_others > 0)) mixed.insert(output);
    if (num_others == 0) scores.insert(output);
  }
  return mixed;
}

}  // namespace bitpress::plan
