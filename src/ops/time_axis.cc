#include "ops/time_axis.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

// Returns the values that recurrent operators read step by step, with time as the first dimension.
std::vector<std::string> SequencesOf(const graph::Model& model) {
  std::vector<std::string> sequences;
  for (const graph::Node& node : model.AllNodes()) {
    const OperatorTraits& traits = TraitsOf(node);
    const bool is_recurrent = traits.is_recurrent() || traits.codes.product == Product::kRecurrent;
    if (is_recurrent && node.GetInt("layout", 0) == 0) sequences.push_back(node.input(0));
  }
  return sequences;
}

// Returns the name of the first dimension, or "".
std::string FirstSymbol(const graph::Model& model, const std::string& value) {
  const graph::ValueInfo info = model.InfoOf(value);
  return info.shape.empty() ? "" : info.shape.front().symbol;
}

}  // namespace

bool HasTimeFirst(const graph::Model& model) {
  const std::vector<std::string> sequences = SequencesOf(model);
  if (sequences.empty()) return false;
  for (const std::string& sequence : sequences) {
    if (!model.IsInput(sequence)) continue;
    const graph::ValueInfo info = model.InfoOf(sequence);
    if (info.shape.empty() || info.shape.front().value < 0) return true;
  }
  std::set<std::string> symbols;
  for (const std::string& input : model.InputNames()) {
    symbols.insert(FirstSymbol(model, input));
  }
  const auto has_input_symbol = [&](const graph::Model& described) {
    return std::ranges::any_of(sequences, [&](const std::string& sequence) {
      const std::string symbol = FirstSymbol(described, sequence);
      return !symbol.empty() && symbols.contains(symbol);
    });
  };
  const bool is_described = std::ranges::all_of(
      sequences, [&](const std::string& sequence) { return model.InfoOf(sequence).has_shape; });
  if (is_described) return has_input_symbol(model);
  graph::Model inferred = model.Clone();
  inferred.InferShapes();
  return has_input_symbol(inferred);
}

}  // namespace bitpress::ops
