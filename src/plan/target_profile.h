// Models are written for these, a value for each target: whose operators read the codes of weights,
// what a configuration has to be, and the rules about tensors, nodes and models. The planner and
// the writer read the profile. It is a JSON file: the built-in ones lie in targets/, others belong
// to users and have the same form (docs/targets.md):
//
//   const TargetProfile profile = ProfileOf("qnn");
//   AdaptTo(profile, config);
//   CheckRules(profile, MakePlan(config, model, "model"), model);
//
// Functions are pure but for reading a user's file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitpress/quantize_options.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/rule.h"
#include "plan/target_conditions.h"

namespace bitpress::plan {

// A setting that the target wants, in place of another value.
struct TargetSetting {
  std::string key;
  std::string from;  // "": any value
  std::string to;
};

// A rule that the target adds to a configuration.
struct TargetConfigRule {
  std::string key, from;  // only where the configuration has this value; "": always
  Rule rule;
};

// A rule of a target. It is broken by what meets all of `when`, and not all of `wants`; without
// `wants`, by what meets all of `when`.
struct TargetRule {
  Subject subject = Subject::kTensor;
  std::vector<Condition> when;
  std::vector<Condition> wants;
  std::string says;        // what the target takes, in words that follow "it "
  std::string remedy;      // what to do about it; "": nothing
  std::string source;      // who says so
  bool is_advice = false;  // the target runs it, but not as well as it could
};

// The weights whose codes operators read while the model runs, instead of decoding them at load.
enum class CodeReaders {
  kNone,
  kIntegers,  // integers in blocks
  kQuick,     // where that is faster, unless the operators are Quark's
  kAll,
};

struct TargetProfile {
  std::string name;
  std::string meaning;
  CodeReaders products = CodeReaders::kNone;     // of the operators of our library
  CodeReaders contributed = CodeReaders::kNone;  // of MatMulNBits and GatherBlockQuantized
  std::string no_qmoe = {};  // why QMoE, which is another of them, is not used; "": it is
  std::optional<Storage> storage = {};  // instead of the default one
  std::string runtime = {};             // that runs the model, if it is not this processor's
  std::vector<TargetSetting> settings = {};
  std::vector<TargetConfigRule> config_rules = {};  // in front of those of the configuration
  std::vector<TargetRule> rules = {};

  // Returns whether a rule wants blocks that divide their axis. Weights behind a DequantizeLinear
  // are filled up then, so that no plan breaks it.
  bool wants_whole_blocks() const;
};

// Returns the names of the built-in targets and their JSON files as texts, in the order of help
// (CMakeLists.txt).
const std::vector<std::pair<std::string, std::string_view>>& BuiltInTargets();

// Returns the file of a built-in target. Throws Error(kInvalidArgument) with the nearest name.
std::string_view BuiltInText(const std::string& name);

// Returns a built-in target or that of a file. Throws Error(kInvalidArgument) with the nearest
// name, or naming the file and what is wrong in it, and Error(kIo) if it cannot be read.
TargetProfile ProfileOf(const Target& target);

// Reads the JSON of a target. `where` is put in front of messages. Throws Error(kInvalidArgument)
// on newer versions, broken JSON, unknown or repeated keys (with the nearest), wrong types, and
// settings and values that are none.
TargetProfile TargetFromJson(std::string_view text, const std::string& where);

// Gives the configuration the settings of the target. Returns those that changed, as "key=value",
// and the rules that were added.
std::vector<std::string> AdaptTo(const TargetProfile& profile, QuantConfig& config);

// Gives activations the scales and zero points that rules of the target want and that are
// single numbers, as of the outputs of a Sigmoid. Others are chosen from statistics as ever.
void FixScales(const TargetProfile& profile, const graph::Model& model, QuantPlan& plan);

// A scale that a rule of a target wants to be another one, 2^bits times as large.
struct ScaleChange {
  const TensorPlan* row = nullptr;
  int bits = 0;
  std::string says;  // the rule
};
// Returns a change for each node that breaks a rule about power-of-two scales, in the order of the
// nodes. The rows of `plan` hold the scales that are known.
std::vector<ScaleChange> ScalesToChange(const TargetProfile& profile, const QuantPlan& plan,
                                        const graph::Model& model);
// Returns whether the target has such rules.
bool HasRulesOfShifts(const TargetProfile& profile);

// Throws Error(kUnsupported), naming tensor, node and rule, if the target does not take a row of
// the plan or a node of its model. Advice and rules about models do not count: they are about the
// written file.
void CheckRules(const TargetProfile& profile, const QuantPlan& plan, const graph::Model& model);

// The rules that a plan and a model break, a sentence each with tensor or node, what is wrong,
// what to do, and the source.
struct BrokenRules {
  std::vector<std::string> refused;
  std::vector<std::string> advice;
};
BrokenRules RulesBrokenBy(const TargetProfile& profile, const QuantPlan& plan,
                          const graph::Model& model);

// Throws Error(kUnsupported) if the target does not take a node of a model as it will be written:
// quantizing may have made one that the rules refuse. Returns the rules about the model as a whole
// that it breaks, advice too.
std::vector<std::string> CheckWritten(const TargetProfile& profile, const graph::Model& model);

}  // namespace bitpress::plan
