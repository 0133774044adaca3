// Patterns of operators that compute something together. For example, a GELU as exporters write it:
//
//   const Pattern x = Pattern::Any("x");
//   const Pattern erf = Pattern::Op("Erf", {Pattern::Op("Div", {x,
//   Pattern::Number(1.41421356F)})}); const Pattern gelu = Pattern::Op(
//       "Mul", {Pattern::Op("Mul", {x, Pattern::Op("Add", {erf, Pattern::Number(1)})}),
//               Pattern::Number(0.5F)});
//   if (const auto match = gelu.MatchAt(model, node)) {
//     model.Replace(match->nodes, [&] { ... match->values.at("x") ... });
//   }
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

struct PatternMatch {
  std::map<std::string, std::string, std::less<>> values;  // the names of the values, by label
  // The nodes, in topological order. Nothing else reads their outputs but for those of the last.
  std::vector<Node> nodes;
};

class Pattern {
 public:
  // Any value. Where a label occurs twice in a pattern, both are the same value.
  static Pattern Any(std::string label);
  static Pattern Constant(std::string label);
  // A FLOAT constant of one element, which is `number` but for its rounding.
  static Pattern Number(float number);
  // The first output of a standard operator. The operands of Add and Mul come in either order. What
  // a node reads beyond `inputs` has to be constant, such as the axes of ReduceMean.
  static Pattern Op(std::string op_type, std::vector<Pattern> inputs, std::string label = "");
  // The first of these patterns that fits.
  static Pattern OneOf(std::vector<Pattern> patterns);

  // Returns the match whose last node is `root`; nothing if there is none, or if something else
  // reads a value inside it.
  std::optional<PatternMatch> MatchAt(const Model& model, const Node& root) const;

 private:
  struct Term;
  explicit Pattern(Term term);
  bool MatchValue(const Model& model, const std::string& value, PatternMatch& match) const;
  bool MatchNode(const Model& model, const Node& node, PatternMatch& match) const;
  bool MatchInputs(const Model& model, const Node& node, bool is_swapped,
                   PatternMatch& match) const;

  std::shared_ptr<const Term> term_;
};

}  // namespace bitpress::graph
