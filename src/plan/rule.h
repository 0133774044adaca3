// A rule of a configuration: it selects nodes or tensors, and gives them other settings than the
// rest of the model. For example:
//
//   op_types=Conv nodes=.*head.*: weights=int4
//   roles=attn_v;mlp_down layers=0-3: weights=mx9
//
// plan/node_rules.h applies rules to a model. Plain data; all functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bitpress::plan {

// One rule.
struct Rule {
  // The selectors. A node or tensor must fit one word of each list; an empty list fits everything.
  std::vector<std::string> op_types = {};
  // Types of operators that do not fit: all others do. A node that preparation joined fits neither
  // by its own type nor by that of a part that multiplies.
  std::vector<std::string> not_op_types = {};
  // Exact names of nodes. A node without a name has that of its first output.
  std::vector<std::string> names = {};
  // Exact names of nodes that do not fit: all others do.
  std::vector<std::string> not_names = {};
  // Regular expressions (ECMAScript) for whole names of nodes.
  std::vector<std::string> nodes = {};
  // Regular expressions for whole names of values that a node reads or gives.
  std::vector<std::string> tensors = {};
  // The ends of paths: values, or nodes, which belong to the path themselves. A node fits if it
  // lies on a path from one of `from` to one of `to`. If `from` is empty, everything up to `to`
  // fits; if `to` is empty, everything behind `from`.
  std::vector<std::string> from = {};
  std::vector<std::string> to = {};
  // Roles in transformers, such as "attn_v" (ops/layer_roles.h).
  std::vector<std::string> roles = {};
  // Numbers of layers of transformers, from 0, ranges of them ("0-3"), or "mixed" (MixedLayers).
  std::vector<std::string> layers = {};
  // The selected nodes and tensors stay float.
  bool exclude = false;
  // It is no error if a word of the lists fits nothing in a model. This is for configurations that
  // are used with many models.
  bool is_optional = false;
  // The settings by key ("weights" -> "int4"): those of QuantConfig that can differ from node to
  // node.
  std::vector<std::pair<std::string, std::string>> settings = {};

  bool operator==(const Rule&) const = default;
};

// A selector of Rule, by the word that rules are written with.
struct RuleSelector {
  std::string_view key;
  std::vector<std::string> Rule::*list;
  bool is_pattern = false;
};
inline constexpr RuleSelector kRuleSelectors[] = {
    {"op_types", &Rule::op_types}, {"not_op_types", &Rule::not_op_types},
    {"names", &Rule::names},       {"not_names", &Rule::not_names},
    {"nodes", &Rule::nodes, true}, {"tensors", &Rule::tensors, true},
    {"from", &Rule::from},         {"to", &Rule::to},
    {"roles", &Rule::roles},       {"layers", &Rule::layers},
};

// A range of layers, both ends included.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;
};
// Reads "5" or "0-3". Throws Error(kInvalidArgument).
LayerRange ParseLayerRange(std::string_view word);

// The word for the layers that MixedLayers returns.
inline constexpr std::string_view kMixedLayers = "mixed";
// Returns the layers that llama.cpp gives more bits in its mixed types, and ONNX Runtime GenAI's
// builder with mixed_layers: the first and the last eighth, and every third between.
std::vector<LayerRange> MixedLayers(int64_t num_layers);

// Reads "SELECTOR[ SELECTOR...]: SETTING[, SETTING...]", where a selector is `op_types=Conv;Gemm`
// and a setting `weights=int4` or one of the words `exclude`, `optional`. Throws
// Error(kInvalidArgument) naming the word that is wrong, with the nearest.
Rule ParseRule(std::string_view text);

// Throws Error(kInvalidArgument) if the rule selects or says nothing, if a pattern is none, or if a
// setting does not exist, cannot differ from node to node, or has a value it does not allow.
void CheckRule(const Rule& rule);

// Returns the text that ParseRule reads, for messages and reasons.
std::string RuleText(const Rule& rule);

// Returns "op_types=T[;T], names=N, ...", for help texts.
std::string RuleSelectorWords();

}  // namespace bitpress::plan
