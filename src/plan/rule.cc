#include "plan/rule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "ops/layer_roles.h"
#include "plan/name_pattern.h"
#include "plan/quant_config.h"

namespace bitpress::plan {
namespace {

const RuleSelector* FindSelector(std::string_view key) {
  const auto* const found = std::ranges::find(kRuleSelectors, key, &RuleSelector::key);
  return found == std::end(kRuleSelectors) ? nullptr : found;
}

void AddSelector(Rule& rule, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const RuleSelector* const selector = FindSelector(key);
  if (equals == std::string::npos || selector == nullptr) {
    std::vector<std::string> keys;
    for (const RuleSelector& known : kRuleSelectors) keys.emplace_back(known.key);
    Fail(ErrorCode::kInvalidArgument, "'{}' selects nothing{}; a selector is one of {}", word,
         DidYouMean(key, keys), RuleSelectorWords());
  }
  if (!(rule.*selector->list).empty()) {
    Fail(ErrorCode::kInvalidArgument, "'{}' appears twice; give its words in one list, {}=A;B", key,
         key);
  }
  for (const std::string& item : Split(std::string_view(word).substr(equals + 1), ';')) {
    if (!Trim(item).empty()) (rule.*selector->list).emplace_back(Trim(item));
  }
}

}  // namespace

Rule ParseRule(std::string_view text) {
  return WithContext(fmt::format("rule '{}'", text), [&] {
    const size_t colon = text.find(": ");
    if (colon == std::string_view::npos) {
      Fail(ErrorCode::kInvalidArgument,
           "a rule is 'WHO: WHAT' (with a space behind the colon), such as 'op_types=MatMul: "
           "weights=int4, weight_granularity=per_block' or 'nodes=/head/.*: exclude'");
    }
    Rule rule;
    for (const std::string& word : Split(text.substr(0, colon), ' ')) {
      if (!Trim(word).empty()) AddSelector(rule, std::string(Trim(word)));
    }
    for (const std::string& word : SplitOutsideParentheses(text.substr(colon + 2), ", \t")) {
      const size_t equals = word.find('=');
      if (word == "exclude") {
        rule.exclude = true;
      } else if (word == "optional") {
        rule.is_optional = true;
      } else if (equals == std::string::npos) {
        Fail(ErrorCode::kInvalidArgument,
             "'{}' is not of the form key=value, nor 'exclude' or "
             "'optional'{}",
             word, DidYouMean(word, std::vector<std::string>{"exclude", "optional"}));
      } else {
        rule.settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
      }
    }
    CheckRule(rule);
    return rule;
  });
}

void CheckRule(const Rule& rule) {
  for (const std::string& role : rule.roles) ops::ParseLayerRole(role);
  for (const std::string& range : rule.layers) {
    if (range != kMixedLayers) ParseLayerRange(range);
  }
  bool selects = false;
  for (const RuleSelector& selector : kRuleSelectors) {
    for (const std::string& word : rule.*selector.list) {
      selects = true;
      if (!selector.is_pattern) continue;
      WithContext(selector.key, [&] { return NamePattern(word); });
    }
  }
  if (!selects) {
    Fail(ErrorCode::kInvalidArgument, "it selects nothing; use one of {}, or a general setting",
         RuleSelectorWords());
  }
  if (rule.exclude == !rule.settings.empty()) {
    Fail(ErrorCode::kInvalidArgument, "it says {}; either 'exclude' or settings",
         rule.exclude ? "two things" : "nothing");
  }
  QuantConfig scratch;
  for (const auto& [key, value] : rule.settings) {
    if (!FindSetting(key).is_per_node()) {
      Fail(ErrorCode::kInvalidArgument,
           "setting {} holds for the whole model and cannot stand in a rule", key);
    }
    ApplySetting(scratch, key, value);
  }
}

std::string RuleText(const Rule& rule) {
  std::vector<std::string> selectors;
  for (const RuleSelector& selector : kRuleSelectors) {
    const std::vector<std::string>& words = rule.*selector.list;
    if (!words.empty()) selectors.push_back(fmt::format("{}={}", selector.key, Join(words, ";")));
  }
  std::vector<std::string> settings;
  if (rule.exclude) settings.emplace_back("exclude");
  for (const auto& [key, value] : rule.settings) settings.push_back(key + "=" + value);
  if (rule.is_optional) settings.emplace_back("optional");
  return Join(selectors, " ") + ": " + Join(settings, ", ");
}

std::string RuleSelectorWords() {
  return "op_types=TYPE[;TYPE...], not_op_types=TYPE[;...], names=NODE[;...], "
         "not_names=NODE[;...], "
         "nodes=REGEX[;...], tensors=REGEX[;...], from=VALUE_OR_NODE[;...], "
         "to=VALUE_OR_NODE[;...], roles=ROLE[;...], layers=N[-M][;...] or mixed";
}

LayerRange ParseLayerRange(std::string_view word) {
  LayerRange range;
  const char* const end = word.data() + word.size();
  std::from_chars_result read = std::from_chars(word.data(), end, range.first);
  range.last = range.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, range.last);
  }
  if (read.ec != std::errc() || read.ptr != end || range.first < 0 || range.last < range.first) {
    Fail(ErrorCode::kInvalidArgument,
         "layers: '{}' is neither the number of a layer, from 0, nor a range such as 0-3, nor {}",
         word, kMixedLayers);
  }
  return range;
}

std::vector<LayerRange> MixedLayers(int64_t num_layers) {
  std::vector<LayerRange> ranges;
  const auto eighth = static_cast<int64_t>(std::nearbyint(static_cast<double>(num_layers) / 8));
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool is_end = 8 * i < num_layers || 8 * i >= 7 * num_layers;
    if (is_end || (i + 3 - eighth % 3) % 3 == 2) ranges.push_back({i, i});
  }
  return ranges;
}

}  // namespace bitpress::plan
