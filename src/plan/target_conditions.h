// The conditions that rules of targets are made of: "formats": ["int8", "uint8"], "symmetric":
// true. Each is a row of one table, with its meaning, the argument that it takes and what it finds
// in a tensor, a node or a model. Something that is not known, such as a scale before calibration,
// meets no condition and misses none. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// A rule is about one of these.
enum class Subject { kTensor, kNode, kModel };
// The lists of a target's file that have the rules of each.
inline constexpr std::pair<const char*, Subject> kRuleLists[] = {{"tensor_rules", Subject::kTensor},
                                                                 {"node_rules", Subject::kNode},
                                                                 {"model_rules", Subject::kModel}};

// The argument of a condition.
enum class ArgumentKind {
  kTruth,     // true or false
  kWords,     // words of which it is one; "QLinear*" stands for all that begin so
  kNumbers,   // numbers of which it is one
  kRange,     // the least and the largest number
  kLeast,     // the least number
  kMultiple,  // a number that divides it
};

// Returns what a file has to give for an argument: "a list of words".
std::string_view ArgumentText(ArgumentKind kind);

// A condition in a rule.
inline constexpr std::string_view kWholeBlocks = "whole_blocks";

struct Condition {
  std::string key;
  bool truth = false;
  std::vector<std::string> words = {};
  std::vector<double> numbers = {};
};

// A condition finds this. It is not known if all of it is empty.
struct Found {
  std::optional<bool> truth = {};
  std::vector<std::string> words = {};
  std::vector<double> numbers = {};
  std::string text = {};  // "format mx6", for messages
};

// A plan and its model, as conditions ask about them. Both must outlive it.
class PlannedModel {
 public:
  PlannedModel(const QuantPlan& plan, const graph::Model& model);

  const graph::Model& model() const { return model_; }
  // Returns the node of a key of the plan, if the model has one of that name only.
  std::optional<graph::Node> NodeOf(const std::string& key) const { return index_.Only(key); }
  // Returns the row of what a node reads at an input; null if none is quantized.
  const TensorPlan* RowAt(const std::string& node, int64_t input) const;
  // Returns the row of what a node gives, or of what the activation function gives that alone reads
  // it. Null if neither is quantized.
  const TensorPlan* RowOfOutput(const graph::Node& node) const;
  std::string KeyOf(const graph::Node& node) const { return index_.KeyOf(node); }

 private:
  const graph::Model& model_;
  const NodeIndex index_;
  std::map<std::pair<std::string, int64_t>, const TensorPlan*> reads_;
  std::map<std::string, const TensorPlan*> values_;
};

// A tensor whose scale changes what a condition finds in a node. If it is multiplied by 2^bits, the
// number grows by growth * bits.
struct Adjusted {
  const TensorPlan* row = nullptr;  // null: no scale is known
  int growth = 1;
};

// A row of the table of conditions. It has the function of one subject.
struct ConditionRow {
  std::string_view key;
  ArgumentKind kind = ArgumentKind::kTruth;
  std::string_view meaning;
  bool is_any = false;  // one of what is found is enough in `wants`, too
  Found (*of_tensor)(const TensorPlan& row, const PlannedModel& planned) = nullptr;
  Found (*of_node)(const graph::Node& node, const PlannedModel& planned) = nullptr;
  Found (*of_model)(const PlannedModel& planned) = nullptr;
  // The tensor whose scale a target may change so that a node meets the condition. Null: none.
  Adjusted (*adjusted)(const graph::Node& node, const PlannedModel& planned) = nullptr;

  bool IsAbout(Subject subject) const;
};
std::span<const ConditionRow> ConditionRows();

// Returns the row of a key for a subject. Throws Error(kInvalidArgument) with the nearest key.
const ConditionRow& ConditionRowOf(Subject subject, std::string_view key);

// Returns whether what was found meets a condition; nothing if it is not known. With `all`, every
// word and number has to be one of the condition's, else one is enough.
std::optional<bool> Meets(const Found& found, const Condition& condition, ArgumentKind kind,
                          bool all);

}  // namespace bitpress::plan
