#include "graph/pattern.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bitpress::graph {

struct Pattern::Term {
  enum class Kind { kAny, kConstant, kNumber, kOp, kOneOf };
  Kind kind = Kind::kAny;
  std::string label = {};
  std::string op_type = {};
  std::vector<Pattern> parts = {};  // inputs, or alternatives
  float number = 0;
};

namespace {

bool IsNumber(const Model& model, const std::string& value, float number) {
  if (!model.IsInitializer(value) || model.IsDeferred(value)) return false;
  const InitializerView view = model.Initializer(value);
  if (view.type != DataType::kFloat || view.bytes.size() != sizeof(float)) return false;
  constexpr float kTolerance = 1e-5F;
  return std::abs(view.values<float>()[0] - number) <= kTolerance * std::abs(number);
}

// Returns whether only nodes of the match, all of them in one graph, read values inside it.
bool IsClosed(const Model& model, const PatternMatch& match) {
  const auto is_inside = [&](const Node& node) {
    return std::ranges::find(match.nodes, node) != match.nodes.end();
  };
  const Node& root = match.nodes.back();
  return std::ranges::all_of(match.nodes, [&](const Node& node) {
    if (node == root) return true;
    if (!model.AreInOneGraph(node, root)) return false;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const std::vector<Use> uses = model.AllUses(node.output(i));
      if (model.IsOutput(node.output(i)) ||
          !std::ranges::all_of(uses, [&](const Use& use) { return is_inside(use.node); })) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace

Pattern::Pattern(Term term) : term_(std::make_shared<const Term>(std::move(term))) {}

Pattern Pattern::Any(std::string label) {
  return Pattern({.kind = Term::Kind::kAny, .label = std::move(label)});
}

Pattern Pattern::Constant(std::string label) {
  return Pattern({.kind = Term::Kind::kConstant, .label = std::move(label)});
}

Pattern Pattern::Number(float number) {
  return Pattern({.kind = Term::Kind::kNumber, .number = number});
}

Pattern Pattern::Op(std::string op_type, std::vector<Pattern> inputs, std::string label) {
  return Pattern({.kind = Term::Kind::kOp,
                  .label = std::move(label),
                  .op_type = std::move(op_type),
                  .parts = std::move(inputs)});
}

Pattern Pattern::OneOf(std::vector<Pattern> patterns) {
  return Pattern({.kind = Term::Kind::kOneOf, .parts = std::move(patterns)});
}

std::optional<PatternMatch> Pattern::MatchAt(const Model& model, const Node& root) const {
  PatternMatch match;
  if (root.num_outputs() == 0 || !MatchValue(model, root.output(0), match)) return std::nullopt;
  if (match.nodes.empty() || !IsClosed(model, match)) return std::nullopt;
  return match;
}

bool Pattern::MatchValue(const Model& model, const std::string& value, PatternMatch& match) const {
  const Term& term = *term_;
  if (const auto bound = match.values.find(term.label);
      !term.label.empty() && bound != match.values.end()) {
    return bound->second == value;
  }
  switch (term.kind) {
    case Term::Kind::kAny:
      break;
    case Term::Kind::kConstant:
      if (!model.IsInitializer(value)) return false;
      break;
    case Term::Kind::kNumber:
      if (!IsNumber(model, value, term.number)) return false;
      break;
    case Term::Kind::kOneOf:
      return std::ranges::any_of(
          term.parts, [&](const Pattern& part) { return part.MatchValue(model, value, match); });
    case Term::Kind::kOp: {
      const std::optional<Node> node = model.Producer(value);
      if (!node || node->output(0) != value || !MatchNode(model, *node, match)) return false;
      break;
    }
  }
  if (!term.label.empty()) match.values.emplace(term.label, value);
  return true;
}

bool Pattern::MatchNode(const Model& model, const Node& node, PatternMatch& match) const {
  const Term& term = *term_;
  if (!node.domain().empty() || node.op_type() != term.op_type ||
      node.num_inputs() < term.parts.size()) {
    return false;
  }
  for (size_t i = term.parts.size(); i < node.num_inputs(); ++i) {
    if (!node.input(i).empty() && !model.IsInitializer(node.input(i))) return false;
  }
  const bool is_commutative =
      (term.op_type == "Add" || term.op_type == "Mul") && term.parts.size() == 2;
  if (!MatchInputs(model, node, /*is_swapped=*/false, match) &&
      !(is_commutative && MatchInputs(model, node, /*is_swapped=*/true, match))) {
    return false;
  }
  if (std::ranges::find(match.nodes, node) == match.nodes.end()) match.nodes.push_back(node);
  return true;
}

bool Pattern::MatchInputs(const Model& model, const Node& node, bool is_swapped,
                          PatternMatch& match) const {
  PatternMatch so_far = match;
  for (size_t i = 0; i < term_->parts.size(); ++i) {
    const std::string& input = node.input(is_swapped ? 1 - i : i);
    if (!term_->parts[i].MatchValue(model, input, so_far)) return false;
  }
  match = std::move(so_far);
  return true;
}

}  // namespace bitpress::graph
