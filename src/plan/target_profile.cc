#include "plan/target_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/version.h"
#include "base/words.h"
#include "plan/config_json.h"
#include "plan/strict_json.h"

namespace bitpress::plan {
namespace {

using nlohmann::json;

constexpr int64_t kVersion = 1;
constexpr const char* kVersionKey = "bitpress_target";

constexpr std::array<std::pair<std::string_view, CodeReaders>, 4> kReaderWords{
    {{"none", CodeReaders::kNone},
     {"integers", CodeReaders::kIntegers},
     {"quick", CodeReaders::kQuick},
     {"all", CodeReaders::kAll}}};
constexpr std::array<std::pair<std::string_view, Storage>, 3> kStorageWords{
    {{"packed", Storage::kPacked}, {"simulated", Storage::kSimulated}, {"qdq", Storage::kQdq}}};

Condition ReadCondition(ObjectReader& reader, const ConditionRow& row) {
  const std::string key(row.key);
  Condition condition{.key = key};
  switch (row.kind) {
    case ArgumentKind::kTruth:
      condition.truth = reader.Bool(key.c_str());
      break;
    case ArgumentKind::kWords:
      condition.words = reader.Strings(key.c_str());
      break;
    default:
      condition.numbers = reader.Numbers(key.c_str());
  }
  const bool is_range = row.kind == ArgumentKind::kRange;
  const bool is_one = row.kind == ArgumentKind::kLeast || row.kind == ArgumentKind::kMultiple;
  const size_t wanted = is_range ? 2 : 1;
  if ((is_range || is_one) && condition.numbers.size() != wanted) {
    Fail(ErrorCode::kInvalidArgument, "'{}' must be {}, found {} numbers", key,
         is_range ? "two numbers, the least and the largest" : "one number",
         condition.numbers.size());
  }
  if (is_range && !(condition.numbers[0] <= condition.numbers[1])) {
    Fail(ErrorCode::kInvalidArgument, "'{}': the least number, {}, is above the largest, {}", key,
         condition.numbers[0], condition.numbers[1]);
  }
  if (row.kind == ArgumentKind::kMultiple && condition.numbers[0] < 1) {
    Fail(ErrorCode::kInvalidArgument, "'{}' must be 1 or more", key);
  }
  const auto is_no_scale = [](double x) {
    return !(x > 0 && x <= std::numeric_limits<float>::max());
  };
  if (key == "scales" && std::ranges::any_of(condition.numbers, is_no_scale)) {
    Fail(ErrorCode::kInvalidArgument, "'{}' must be finite and above 0", key);
  }
  return condition;
}

std::vector<Condition> ReadConditions(Subject subject, const json& object,
                                      const std::string& where) {
  ObjectReader reader(object, where);
  std::vector<Condition> conditions;
  for (const ConditionRow& row : ConditionRows()) {
    if (!row.IsAbout(subject) || !reader.Has(std::string(row.key).c_str())) continue;
    conditions.push_back(WithContext(where, [&] { return ReadCondition(reader, row); }));
  }
  reader.Finish();
  return conditions;
}

TargetRule ReadRule(Subject subject, const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  TargetRule rule;
  rule.subject = subject;
  if (reader.Has("if")) {
    rule.when = ReadConditions(subject, reader.Object("if"), where + ", 'if'");
  }
  if (reader.Has("wants")) {
    rule.wants = ReadConditions(subject, reader.Object("wants"), where + ", 'wants'");
  }
  if (rule.when.empty() && rule.wants.empty()) {
    Fail(ErrorCode::kInvalidArgument, "{}: it has neither 'if' nor 'wants' with a condition",
         where);
  }
  rule.says = reader.String("says");
  if (reader.Has("remedy")) rule.remedy = reader.String("remedy");
  rule.source = reader.String("source");
  rule.is_advice = reader.Has("advice") && reader.Bool("advice");
  reader.Finish();
  return rule;
}

TargetSetting ReadSetting(const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  TargetSetting setting;
  setting.key = reader.String("key");
  setting.to = reader.String("to");
  if (reader.Has("from")) setting.from = reader.String("from");
  reader.Finish();
  WithContext(where, [&] {
    QuantConfig config;
    ApplySetting(config, setting.key, setting.to);
  });
  return setting;
}

TargetConfigRule ReadConfigRule(const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  TargetConfigRule found;
  if (reader.Has("from")) {
    const std::string text = reader.String("from");
    const size_t equals = text.find('=');
    found.key = text.substr(0, equals);
    found.from = equals == std::string::npos ? "" : text.substr(equals + 1);
    WithContext(where + ", 'from'", [&] {
      QuantConfig config;
      ApplySetting(config, text);
    });
  }
  const json& rule = reader.Object("rule");
  reader.Finish();
  found.rule = WithContext(where, [&] { return RuleFromJson(rule); });
  found.rule.is_optional = true;  // a target is for many models
  return found;
}

// Calls read(item, where) for each item of a list, if the object has it.
template <typename Read>
void ReadList(ObjectReader& reader, const char* key, const std::string& where, Read&& read) {
  if (!reader.Has(key)) return;
  size_t number = 0;
  for (const json& item : reader.Array(key)) {
    read(item, fmt::format("{}, {}[{}]", where, key, number++));
  }
}

template <typename T>
void ReadWord(ObjectReader& reader, const char* key, const std::string& where, Words<T> words,
              auto& value) {
  if (!reader.Has(key)) return;
  value = WithContext(where, [&] { return ParseWord(words, reader.String(key), key); });
}

TargetProfile BuiltInProfile(const std::string& name);

TargetProfile ReadProfile(const json& document, const std::string& where) {
  ObjectReader reader(document, where);
  CheckFormatVersion(where, reader.Int(kVersionKey), kVersion);
  TargetProfile profile;
  if (reader.Has("like")) {
    profile = WithContext(where, [&] { return BuiltInProfile(reader.String("like")); });
  }
  profile.name = reader.String("name");
  if (reader.Has("meaning")) profile.meaning = reader.String("meaning");
  if (reader.Has("runtime")) profile.runtime = reader.String("runtime");
  ReadWord<CodeReaders>(reader, "products", where, kReaderWords, profile.products);
  ReadWord<CodeReaders>(reader, "contributed", where, kReaderWords, profile.contributed);
  if (reader.Has("no_qmoe")) profile.no_qmoe = reader.String("no_qmoe");
  ReadWord<Storage>(reader, "storage", where, kStorageWords, profile.storage);
  ReadList(reader, "settings", where, [&](const json& item, const std::string& at) {
    profile.settings.push_back(ReadSetting(item, at));
  });
  ReadList(reader, "config_rules", where, [&](const json& item, const std::string& at) {
    profile.config_rules.push_back(ReadConfigRule(item, at));
  });
  for (const auto& [key, subject] : kRuleLists) {
    ReadList(reader, key, where, [&, about = subject](const json& item, const std::string& at) {
      profile.rules.push_back(ReadRule(about, item, at));
    });
  }
  reader.Finish();
  return profile;
}

// Returns the names of the built-in targets.
std::vector<std::string> BuiltInNames() {
  std::vector<std::string> names;
  for (const auto& [name, text] : BuiltInTargets()) names.push_back(name);
  return names;
}

TargetProfile BuiltInProfile(const std::string& name) {
  return ReadProfile(ParseJson(BuiltInText(name)), name);
}

// Returns whether a row, node or model meets all conditions; nothing if one of them is not known
// and no other is missed. Appends what those find that are missed (or met, if that is asked for) to
// `texts`.
template <typename Find>
std::optional<bool> MeetsAll(const TargetRule& rule, const std::vector<Condition>& conditions,
                             bool all, bool says_met, const Find& find,
                             std::vector<std::string>& texts) {
  std::optional<bool> met = true;
  for (const Condition& condition : conditions) {
    const ConditionRow& row = ConditionRowOf(rule.subject, condition.key);
    const Found found = find(row);
    const std::optional<bool> meets = Meets(found, condition, row.kind, all && !row.is_any);
    if (!meets && met.value_or(false)) met = std::nullopt;
    if (meets == false) met = false;
    if (meets == says_met && !found.text.empty()) texts.push_back(found.text);
    // The others change nothing, and take time at every node.
    if (met == false && (says_met || !texts.empty())) break;
  }
  return met;
}

// Returns what breaks the rule, in words; "" if nothing does.
template <typename Find>
std::string WhyBroken(const TargetRule& rule, const Find& find) {
  std::vector<std::string> met, missed;
  if (MeetsAll(rule, rule.when, /*all=*/false, /*says_met=*/true, find, met) != true) return "";
  const std::string unsaid = "what it does not take";
  if (rule.wants.empty()) return met.empty() ? unsaid : met.back();
  if (MeetsAll(rule, rule.wants, /*all=*/true, /*says_met=*/false, find, missed) != false) {
    return "";
  }
  return missed.empty() ? unsaid : missed.front();
}

std::string SubjectText(const TensorPlan& row) {
  const std::string node =
      row.uses.empty() ? "" : fmt::format(" of {} '{}'", row.uses[0].op_type, row.uses[0].node);
  return fmt::format("{} '{}'{} has ", RoleName(row.role), row.value, node);
}

class RuleCheck {
 public:
  RuleCheck(const TargetProfile& profile, const QuantPlan& plan, const graph::Model& model)
      : profile_(profile), plan_(plan), planned_(plan, model) {}

  BrokenRules Run() {
    for (const TensorPlan& row : plan_.tensors) {
      if (row.is_quantized()) {
        CheckAll(Subject::kTensor, SubjectText(row),
                 [&](const ConditionRow& condition) { return condition.of_tensor(row, planned_); });
      }
    }
    for (const graph::Node& node : planned_.model().AllNodes()) {
      CheckAll(Subject::kNode, node.Describe() + ": ",
               [&](const ConditionRow& condition) { return condition.of_node(node, planned_); });
    }
    CheckAll(Subject::kModel, "the model: ", [&](const ConditionRow& condition) {
      return condition.of_model(planned_);
    });
    return std::move(broken_);
  }

 private:
  template <typename Find>
  void CheckAll(Subject subject, const std::string& what, const Find& find) {
    for (const TargetRule& rule : profile_.rules) {
      if (rule.subject != subject) continue;
      const std::string why = WhyBroken(rule, find);
      if (why.empty()) continue;
      std::vector<std::string>& list = rule.is_advice ? broken_.advice : broken_.refused;
      list.push_back(fmt::format("{}{}; it {}{}{} ({})", what, why, rule.says,
                                 rule.remedy.empty() ? "" : ": ", rule.remedy, rule.source));
    }
  }

  const TargetProfile& profile_;
  const QuantPlan& plan_;
  const PlannedModel planned_;
  BrokenRules broken_;
};

// Returns the only number that a condition of a rule wants; nothing if there is no such condition.
std::optional<double> OnlyNumber(const TargetRule& rule, std::string_view key) {
  for (const Condition& condition : rule.wants) {
    if (condition.key == key && condition.numbers.size() == 1) return condition.numbers[0];
  }
  return std::nullopt;
}

// Returns whether a rule is about power-of-two scales of nodes, which may be changed for its sake.
bool IsOfShifts(const TargetRule& rule) {
  return rule.subject == Subject::kNode && !rule.is_advice &&
         std::ranges::any_of(rule.wants, [&](const Condition& condition) {
           return ConditionRowOf(rule.subject, condition.key).adjusted != nullptr;
         });
}

bool WantsWholeBlocks(const TargetRule& rule) {
  return rule.wants.size() == 1 && rule.wants[0].key == kWholeBlocks && rule.wants[0].truth;
}

// Returns the target with some of its rules.
template <typename IsWanted>
TargetProfile WithRules(TargetProfile profile, const IsWanted& is_wanted) {
  std::erase_if(profile.rules, [&](const TargetRule& rule) { return !is_wanted(rule); });
  return profile;
}

}  // namespace

std::string_view BuiltInText(const std::string& name) {
  for (const auto& [built_in, text] : BuiltInTargets()) {
    if (built_in == name) return text;
  }
  Fail(ErrorCode::kInvalidArgument, "'{}' is not one of {}{}; a file of a target ends in .json",
       name, Join(BuiltInNames(), "|"), DidYouMean(name, BuiltInNames()));
}

TargetProfile ProfileOf(const Target& target) {
  if (!target.text().ends_with(".json")) return BuiltInProfile(target.text());
  return TargetFromJson(ReadFile(PathOf(target.text())), fmt::format("'{}'", target.text()));
}

TargetProfile TargetFromJson(std::string_view text, const std::string& where) {
  const json document = WithContext(where, [&] { return ParseJson(text); });
  return ReadProfile(document, where);
}

std::vector<std::string> AdaptTo(const TargetProfile& profile, QuantConfig& config) {
  std::vector<std::string> changed;
  for (const TargetSetting& setting : profile.settings) {
    const std::string value = FindSetting(setting.key).get(config);
    if (value == setting.to || (!setting.from.empty() && value != setting.from)) continue;
    ApplySetting(config, setting.key, setting.to);
    changed.push_back(fmt::format("{}={}", setting.key, setting.to));
  }
  std::vector<Rule> rules;
  for (const TargetConfigRule& wanted : profile.config_rules) {
    if (!wanted.key.empty() && FindSetting(wanted.key).get(config) != wanted.from) continue;
    changed.push_back(RuleText(wanted.rule));
    rules.push_back(wanted.rule);
  }
  config.rules.insert(config.rules.begin(), rules.begin(), rules.end());
  return changed;
}

void FixScales(const TargetProfile& profile, const graph::Model& model, QuantPlan& plan) {
  if (std::ranges::none_of(profile.rules, [](const TargetRule& rule) {
        return OnlyNumber(rule, "scales").has_value();
      })) {
    return;
  }
  const QuantPlan before = plan;
  const PlannedModel planned(before, model);
  for (const TargetRule& rule : profile.rules) {
    const std::optional<double> scale = OnlyNumber(rule, "scales");
    const std::optional<double> zero_point = OnlyNumber(rule, "zero_points");
    if (rule.subject != Subject::kTensor || rule.is_advice || !scale || !zero_point) continue;
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      TensorPlan& row = plan.tensors[i];
      const bool may_be_fixed = row.is_quantized() && row.role == Role::kActivation &&
                                row.integer && row.integer->shares.empty();
      std::vector<std::string> ignored;
      const auto find = [&](const ConditionRow& condition) {
        return condition.of_tensor(before.tensors[i], planned);
      };
      if (!may_be_fixed || MeetsAll(rule, rule.when, false, false, find, ignored) != true) continue;
      const formats::CodeRange codes = formats::IntegerRange(row.Spec().element_type);
      const bool is_code = *zero_point == std::trunc(*zero_point) &&
                           *zero_point >= static_cast<double>(codes.quant_min) &&
                           *zero_point <= static_cast<double>(codes.quant_max);
      if (!is_code) continue;  // the check names the row by its rule
      row.integer->params = {static_cast<float>(*scale), static_cast<int64_t>(*zero_point)};
    }
  }
}

bool TargetProfile::wants_whole_blocks() const {
  return std::ranges::any_of(rules, WantsWholeBlocks);
}

BrokenRules RulesBrokenBy(const TargetProfile& profile, const QuantPlan& plan,
                          const graph::Model& model) {
  if (profile.rules.empty()) return {};
  return RuleCheck(profile, plan, model).Run();
}

bool HasRulesOfShifts(const TargetProfile& profile) {
  return std::ranges::any_of(profile.rules, IsOfShifts);
}

std::vector<ScaleChange> ScalesToChange(const TargetProfile& profile, const QuantPlan& plan,
                                        const graph::Model& model) {
  const PlannedModel planned(plan, model);
  std::vector<ScaleChange> changes;
  for (const graph::Node& node : model.AllNodes()) {
    const auto find = [&](const ConditionRow& row) { return row.of_node(node, planned); };
    for (const TargetRule& rule : profile.rules) {
      std::vector<std::string> ignored;
      if (!IsOfShifts(rule) || MeetsAll(rule, rule.when, false, false, find, ignored) != true) {
        continue;
      }
      for (const Condition& condition : rule.wants) {
        const ConditionRow& row = ConditionRowOf(rule.subject, condition.key);
        const Found found = find(row);
        if (row.adjusted == nullptr || found.numbers.size() != 1) continue;
        const double number = found.numbers[0];
        const double wanted = std::clamp(number, condition.numbers[0], condition.numbers[1]);
        const Adjusted adjusted = row.adjusted(node, planned);
        if (wanted == number || adjusted.row == nullptr) continue;
        constexpr double kMostBits = 300;  // floats have fewer powers of two
        const double missing = std::clamp(wanted - number, -kMostBits, kMostBits);
        const int bits = static_cast<int>(std::lround(missing)) * adjusted.growth;
        changes.push_back({adjusted.row, bits, rule.says});
      }
    }
  }
  return changes;
}

void CheckRules(const TargetProfile& profile, const QuantPlan& plan, const graph::Model& model) {
  const BrokenRules broken = RulesBrokenBy(WithRules(profile,
                                                     [](const TargetRule& rule) {
                                                       return rule.subject != Subject::kModel &&
                                                              !rule.is_advice &&
                                                              !WantsWholeBlocks(rule);
                                                     }),
                                           plan, model);
  if (broken.refused.empty()) return;
  Fail(ErrorCode::kUnsupported, "target {} does not take the plan: {}", profile.name,
       broken.refused.front());
}

std::vector<std::string> CheckWritten(const TargetProfile& profile, const graph::Model& model) {
  const BrokenRules of_nodes = RulesBrokenBy(
      WithRules(
          profile,
          [](const TargetRule& rule) { return rule.subject == Subject::kNode && !rule.is_advice; }),
      {}, model);
  if (!of_nodes.refused.empty()) {
    Fail(ErrorCode::kUnsupported, "target {} does not take the quantized model: {}", profile.name,
         of_nodes.refused.front());
  }
  BrokenRules of_model = RulesBrokenBy(
      WithRules(profile, [](const TargetRule& rule) { return rule.subject == Subject::kModel; }),
      {}, model);
  std::ranges::move(of_model.advice, std::back_inserter(of_model.refused));
  for (std::string& rule : of_model.refused)
    rule = fmt::format("target {}: {}", profile.name, rule);
  return std::move(of_model.refused);
}

}  // namespace bitpress::plan
