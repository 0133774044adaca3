#include "plan/mixed_values.h"

#include "ops/operator_traits.h"

namespace bitpress::plan {
std::set<std::string> MixedValues(const graph::Model& model) {
  std::set<std::string> scores, mixed;
  // Nodes are in topological order.
  for (const graph::Node& node : model.AllNodes()) {
    if (node.num_inputs() == 0 || node.num_outputs() == 0) continue;
    const std::string& output = node.output(0);
    if (ops::TraitsOf(node).Is(ops::kGivesScores)) scores.insert(output);
    if (ops::MovesElements(node)) {
      if (scores.contains(node.input(0))) scores.insert(output);
      if (mixed.contains(node.input(0))) mixed.insert(output);
    }
    if (ops::TraitsOf(node).on_integers != ops::OnIntegers::kJoins) continue;
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
