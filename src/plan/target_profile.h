// What models are written for, a row for each target: whose operators read the codes of weights,
// what a configuration has to be, and which decisions the target does not take. The planner and the
// writer read the row. A target is a row in target_profile.cc and its word in
// bitpress/quantize_options.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "bitpress/quantize_options.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// A setting that the target wants, in place of another value.
struct TargetSetting {
  std::string_view key;
  std::string_view from;  // "": any value
  std::string_view to;
};

// A rule about the rows of a plan, and who says so.
struct TargetRule {
  // Returns what the target does not take, in words that follow "weight 'w' has"; "" if it takes
  // the row, which is about the model.
  std::string (*why_not)(const TensorPlan& row, const graph::Model& model);
  std::string_view source;
};

// A rule about the nodes of a model, whoever wrote it.
struct TargetNodeRule {
  // Returns what the target does not run, in words that follow "Conv 'c' is"; "" if it runs it.
  std::string (*why_not)(const graph::Node& node, const graph::Model& model);
  std::string_view source;
};

// The weights whose codes operators read while the model runs, instead of decoding them at load.
enum class CodeReaders {
  kNone,
  kIntegers,  // integers in blocks
  kQuick,     // where that is faster, unless the operators are Quark's
  kAll,
};

struct TargetProfile {
  Target target = Target::kAutomatic;
  std::string_view name;
  std::string_view meaning;                      // for help
  CodeReaders products = CodeReaders::kNone;     // of the operators of our library
  CodeReaders contributed = CodeReaders::kNone;  // of MatMulNBits and GatherBlockQuantized
  std::optional<Storage> storage = {};           // instead of the default one
  std::string_view runtime = {};  // that runs the model, if it is not this processor's
  std::span<const TargetSetting> settings = {};
  std::span<const TargetRule> rules = {};
  std::span<const TargetNodeRule> node_rules = {};
};

const TargetProfile& ProfileOf(Target target);

// Returns the words of all targets, and a text that says what each means.
Words<Target> TargetWords();
std::string_view TargetHelp();

// Gives the configuration the settings of the target. Returns those that changed, as "key=value".
std::vector<std::string> AdaptTo(Target target, QuantConfig& config);

// Throws Error(kUnsupported), naming tensor, node and rule, if the target does not take a row of
// the plan of a model.
void CheckRules(Target target, const QuantPlan& plan, const graph::Model& model);

// Returns what the target does not take in a plan and a model, a sentence each with tensor or node,
// rule and source.
std::vector<std::string> BrokenRules(Target target, const QuantPlan& plan,
                                     const graph::Model& model);

}  // namespace bitpress::plan
