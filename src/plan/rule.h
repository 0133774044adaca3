// A rule of a configuration: which nodes or tensors it is about, and which settings they get
// instead of the general ones. Plain data; all functions are pure. plan/node_rules.h applies rules
// to a model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bitpress::plan {

struct Rule {
  // What a node or tensor must be; an empty list asks nothing. Of each list one must fit.
  std::vector<std::string> op_types = {};
  std::vector<std::string> names =
      {};  // of nodes, exactly; a node without one has its first output's
  std::vector<std::string> nodes = {};  // the same as regular expressions (ECMAScript), whole names
  std::vector<std::string> tensors = {};  // regular expressions: values that a node reads or gives
  // Nodes on a path from one of `from` to one of `to`: values, or nodes that belong to it
  // themselves. One of the two may be empty: everything up to, or everything behind.
  std::vector<std::string> from = {};
  std::vector<std::string> to = {};
  // They stay float.
  bool exclude = false;
  // It is no error if a word of the lists fits nothing in a model: for configurations that are used
  // with many models.
  bool is_optional = false;
  // "weights" -> "int4": settings of QuantConfig that can differ from node to node.
  std::vector<std::pair<std::string, std::string>> settings = {};

  bool operator==(const Rule&) const = default;
};

// One of the lists above, by the word that rules are written with.
struct RuleSelector {
  std::string_view key;
  std::vector<std::string> Rule::*list;
  bool is_pattern = false;
};
inline constexpr RuleSelector kRuleSelectors[] = {
    {"op_types", &Rule::op_types},     {"names", &Rule::names}, {"nodes", &Rule::nodes, true},
    {"tensors", &Rule::tensors, true}, {"from", &Rule::from},   {"to", &Rule::to},
};

// Reads "SELECTOR[ SELECTOR...]: SETTING[, SETTING...]", where a selector is `op_types=Conv;Gemm`
// and a setting `weights=int4` or one of the words `exclude`, `optional`. Throws
// Error(kInvalidArgument) naming the word that is wrong, with the nearest.
Rule ParseRule(std::string_view text);

// Throws Error(kInvalidArgument) if the rule selects or says nothing, if a pattern is none, or if a
// setting does not exist, cannot differ from node to node, or has a value it does not allow.
void CheckRule(const Rule& rule);

// The same as ParseRule reads, for messages and reasons.
std::string RuleText(const Rule& rule);

// "op_types=T[;T], names=N, ...": for help texts.
std::string RuleSelectorWords();

}  // namespace bitpress::plan
