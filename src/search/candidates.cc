#include "search/candidates.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::search {
namespace {

using plan::QuantConfig;

constexpr std::string_view kFloat = "float";
constexpr std::string_view kAnyNode = ".*";  // a regular expression

// Returns whether a setting is about this side of a layer.
bool IsAbout(Side side, const plan::Setting& setting) {
  const bool is_of_weights = setting.scope == plan::SettingScope::kWeights;
  const bool is_of_activations = setting.scope == plan::SettingScope::kActivations;
  return (is_of_weights && side != Side::kActivations) ||
         (is_of_activations && side != Side::kWeights);
}

int BitsOf(const std::string& format) {
  return format == "none" ? 32 : formats::FindFormat(format).element_bits;
}

bool HasIntegers(std::span<const Candidate> candidates) {
  return std::ranges::any_of(candidates, [](const Candidate& candidate) {
    const std::string& format = candidate.config.activations;
    return format != "none" && formats::FindFormat(format).is_integer();
  });
}

// Returns the first of a side's candidates with the most bits.
const Candidate& Finest(std::span<const Candidate> candidates, std::string QuantConfig::*format) {
  return *std::ranges::max_element(
      candidates, {}, [&](const Candidate& candidate) { return BitsOf(candidate.config.*format); });
}

Candidate ParseCandidate(const std::string& name) {
  Candidate candidate{name, {}};
  if (ToLower(name) == kFloat || ToLower(name) == "none") {
    candidate.name = kFloat;
    return candidate;
  }
  candidate.config = plan::ConfigByName(name);
  // A network of another type is no choice for a part of one; the format is.
  if (candidate.config.network != plan::Network::kGiven)
    candidate.config = plan::ConfigByName("FP16_SIMULATED");
  if (!candidate.config.finetune.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "candidate '{}' learns weights from samples, which happens once for the whole plan: give "
         "the name without suffix, and setting finetune",
         name);
  }
  if (!candidate.config.rules.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "candidate '{}' is a mix of formats already; candidates are what is mixed", name);
  }
  return candidate;
}

void CopySettings(QuantConfig& to, const QuantConfig& from, Side side) {
  for (const plan::Setting& setting : plan::AllSettings()) {
    if (!setting.is_derived && IsAbout(side, setting)) setting.set(to, setting.get(from));
  }
}

std::string SettingsText(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) words.push_back(key + "=" + value);
  return Join(words, ", ");
}

void MakeCombinations(Space& space) {
  std::vector<size_t> weights, activations;
  for (size_t i = 0; i < space.parts.size(); ++i) {
    if (space.parts[i].side == Side::kBoth) space.combinations.push_back({i});
    if (space.parts[i].side == Side::kWeights) weights.push_back(i);
    if (space.parts[i].side == Side::kActivations) activations.push_back(i);
  }
  for (const size_t weight : weights) {
    for (const size_t activation : activations) space.combinations.push_back({weight, activation});
  }
}

}  // namespace

std::string_view SideName(Side side) {
  switch (side) {
    case Side::kBoth:
      return "both";
    case Side::kWeights:
      return "weights";
    case Side::kActivations:
      return "activations";
  }
  return "";
}

std::vector<Candidate> ParseCandidates(std::string_view text) {
  std::vector<Candidate> candidates;
  std::set<std::string> names;
  for (const std::string& word : SplitOutsideParentheses(text, ",")) {
    const std::string name(Trim(word));
    if (name.empty()) continue;
    candidates.push_back(ParseCandidate(name));
    if (!names.insert(ToLower(candidates.back().name)).second) {
      Fail(ErrorCode::kInvalidArgument, "candidate '{}' appears twice", name);
    }
  }
  return candidates;
}

Settings ParseSettings(std::string_view text) {
  Settings settings;
  for (const std::string& word : SplitOutsideParentheses(text, ", \t")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' is not of the form key=value; write settings as 'activations=int8, weights=int4'",
           word);
    }
    settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return settings;
}

Space MakeSpace(std::span<const Candidate> both, std::span<const Candidate> weights,
                std::span<const Candidate> activations, std::optional<QuantConfig> base) {
  const bool is_split = !weights.empty() || !activations.empty();
  if (weights.empty()) weights = both.empty() ? activations : both;
  if (activations.empty()) activations = both.empty() ? weights : both;
  if (weights.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "there are no candidates: give formats or presets, such as mx9,mx6,mxfp4_e2m1");
  }
  Space space;
  if (base) {
    space.base = *std::move(base);
  } else {
    space.base = Finest(weights, &QuantConfig::weights).config;
    CopySettings(space.base, Finest(activations, &QuantConfig::activations).config,
                 Side::kActivations);
    space.base.name = "search";
  }
  if (space.base.placement == plan::Placement::kDefault && HasIntegers(activations)) {
    space.base.placement = plan::Placement::kQdq;
  }
  if (is_split) {
    for (const Candidate& candidate : weights) space.parts.push_back({Side::kWeights, candidate});
    for (const Candidate& candidate : activations) {
      space.parts.push_back({Side::kActivations, candidate});
    }
  } else {
    for (const Candidate& candidate : both) space.parts.push_back({Side::kBoth, candidate});
  }
  MakeCombinations(space);
  return space;
}

Space MakeVariantSpace(QuantConfig base, std::span<const Settings> changes) {
  Space space;
  space.has_variants = true;
  const std::string activations = base.activations == "none" ? "float" : base.activations;
  const std::string weights = base.weights == "none" ? "float" : base.weights;
  space.parts.push_back(
      {Side::kBoth,
       {activations == weights ? weights : activations + " x " + weights, base, Settings()}});
  for (const Settings& settings : changes) {
    Candidate variant{SettingsText(settings), base, settings};
    WithContext(fmt::format("variant '{}'", variant.name), [&] {
      plan::CheckRule({.nodes = {std::string(kAnyNode)}, .settings = settings});
      for (const auto& [key, value] : settings) plan::ApplySetting(variant.config, key, value);
    });
    space.parts.push_back({Side::kBoth, std::move(variant)});
  }
  MakeCombinations(space);
  space.base = std::move(base);
  return space;
}

QuantConfig PartConfig(const Space& space, const Part& part) {
  QuantConfig config = space.base;
  if (part.candidate.changes) {
    config.finetune.clear();
    config.embeddings = "none";
    AddChoice(config, {.nodes = {std::string(kAnyNode)}, .settings = *part.candidate.changes});
    return config;
  }
  config.name = part.candidate.name;
  std::erase_if(config.rules, [](const plan::Rule& rule) { return !rule.exclude; });
  config.finetune.clear();
  CopySettings(config, QuantConfig(), Side::kBoth);
  config.embeddings = "none";
  CopySettings(config, part.candidate.config, part.side);
  return config;
}

Settings RuleSettings(const Space& space, std::span<const size_t> combination) {
  Settings settings;
  for (const size_t index : combination) {
    const Part& part = space.parts[index];
    if (part.candidate.changes) return *part.candidate.changes;
    for (const plan::Setting& setting : plan::AllSettings()) {
      if (setting.is_derived || !IsAbout(part.side, setting)) continue;
      std::string value = setting.get(part.candidate.config);
      const bool is_format = setting.key == "weights" || setting.key == "activations";
      if (is_format || value != setting.get(space.base)) {
        settings.emplace_back(setting.key, std::move(value));
      }
    }
  }
  return settings;
}

void AddChoice(QuantConfig& config, plan::Rule rule) {
  if (rule.settings.empty()) return;
  // Behind the last rule that is about nodes. An exclusion holds wherever it stands.
  const auto is_for_nodes = [](const plan::Rule& known) {
    return known.tensors.empty() && !known.exclude;
  };
  const auto last = std::find_if(config.rules.rbegin(), config.rules.rend(), is_for_nodes);
  config.rules.insert(last.base(), std::move(rule));
}

}  // namespace bitpress::search
