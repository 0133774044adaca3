#include "plan/quant_config.h"

#include <array>
#include <regex>
#include <utility>

#include "base/text.h"

namespace bitpress::plan {
namespace {

using formats::Family;
using formats::FormatSpec;
using formats::ScaleChoice;

constexpr Preset kPresets[] = {
    {"BF16", "bf16"},
    {"FP16", "fp16"},
    {"BFP16", "bfp16"},
    {"MX4", "mx4"},
    {"MX6", "mx6"},
    {"MX9", "mx9"},
    {"MXFP8E5M2", "mxfp8_e5m2"},
    {"MXFP8E4M3", "mxfp8_e4m3"},
    {"MXFP6E3M2", "mxfp6_e3m2"},
    {"MXFP6E2M3", "mxfp6_e2m3"},
    {"MXFP4E2M1", "mxfp4_e2m1"},
    {"MXINT8", "mxint8"},
};

// An enumeration's words, in the order of help texts.
template <typename T>
using Words = std::span<const std::pair<std::string_view, T>>;

constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles{
    {{"activation", Role::kActivation}, {"weight", Role::kWeight}, {"bias", Role::kBias}}};
constexpr std::array<std::pair<std::string_view, Placement>, 2> kPlacements{
    {{"compute", Placement::kCompute}, {"all", Placement::kAll}}};
constexpr std::array<std::pair<std::string_view, OperatorSet>, 2> kOperatorSets{
    {{"bitpress", OperatorSet::kBitpress}, {"quark", OperatorSet::kQuark}}};
constexpr std::array<std::pair<std::string_view, ShortAxis>, 3> kShortAxes{
    {{"flatten", ShortAxis::kFlatten},
     {"channels", ShortAxis::kChannels},
     {"axis", ShortAxis::kAxis}}};

template <typename T>
std::string JoinWords(Words<T> words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.emplace_back(name);
  return Join(names, "|");
}

template <typename T>
T ParseWord(Words<T> words, std::string_view word) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    names.emplace_back(name);
  }
  Fail(ErrorCode::kInvalidArgument, "'{}' is not one of {}{}", word, JoinWords(words),
       DidYouMean(word, names));
}

template <typename T>
std::string_view WordOf(Words<T> words, T wanted) {
  for (const auto& [name, value] : words) {
    if (value == wanted) return name;
  }
  return "?";
}

// A format's name in its canonical spelling, or "none".
std::string ParseFormatWord(std::string_view word) {
  const std::string_view trimmed = Trim(word);
  if (ToLower(trimmed) == "none") return "none";
  const FormatSpec spec = formats::FindFormat(trimmed);
  if (spec.is_integer()) {
    Fail(ErrorCode::kUnsupported,
         "format '{}' needs scales from calibration, which is not part of this version; use mxint8 "
         "or another block format",
         spec.name);
  }
  return spec.name;
}

// Lists are separated by semicolons: names of nodes may hold commas, and so do regular expressions.
std::vector<std::string> ParseList(std::string_view text) {
  std::vector<std::string> items;
  for (const std::string& item : Split(text, ';')) {
    const std::string_view trimmed = Trim(item);
    if (!trimmed.empty()) items.emplace_back(trimmed);
  }
  return items;
}

std::vector<std::string> ParsePatterns(std::string_view text) {
  std::vector<std::string> patterns = ParseList(text);
  for (const std::string& pattern : patterns) {
    try {
      const std::regex compiled(pattern);
    } catch (const std::regex_error& error) {
      Fail(ErrorCode::kInvalidArgument, "'{}' is not a regular expression: {}", pattern,
           error.what());
    }
  }
  return patterns;
}

std::optional<ScaleChoice> ParseScale(std::string_view word) {
  if (word == "default") return std::nullopt;
  return formats::ParseScaleChoice(word);
}

std::string ScaleWord(const std::optional<ScaleChoice>& choice) {
  return choice ? std::string(formats::ScaleChoiceName(*choice)) : "default";
}

constexpr std::string_view kScaleWords = "floor|ceil|even|mse|default";

Setting FormatSetting(std::string_view key, std::string_view help,
                      std::string QuantConfig::*field) {
  return {key, "FORMAT|none", help,
          [field](QuantConfig& config, std::string_view value) {
            config.*field = ParseFormatWord(value);
          },
          [field](const QuantConfig& config) { return config.*field; }};
}

Setting ScaleSetting(std::string_view key, std::string_view help,
                     std::optional<ScaleChoice> QuantConfig::*field) {
  return {
      key, std::string(kScaleWords), help,
      [field](QuantConfig& config, std::string_view value) { config.*field = ParseScale(value); },
      [field](const QuantConfig& config) { return ScaleWord(config.*field); }};
}

template <typename T>
Setting WordSetting(std::string_view key, std::string_view help, Words<T> words,
                    T QuantConfig::*field) {
  return {key, JoinWords(words), help,
          [field, words](QuantConfig& config, std::string_view value) {
            config.*field = ParseWord(words, value);
          },
          [field, words](const QuantConfig& config) {
            return std::string(WordOf(words, config.*field));
          }};
}

std::vector<Setting> MakeSettings() {
  std::vector<Setting> settings;
  settings.push_back(
      FormatSetting("activations", "format of the activations", &QuantConfig::activations));
  settings.push_back(FormatSetting("weights", "format of the weights", &QuantConfig::weights));
  settings.push_back(
      FormatSetting("biases", "format of the biases (default none)", &QuantConfig::biases));
  settings.push_back(WordSetting<Placement>(
      "placement",
      "quantize around the operators that multiply (compute, the default) or around every "
      "operator (all)",
      kPlacements, &QuantConfig::placement));
  settings.push_back({"scale", std::string(kScaleWords), "sets activation_scale and weight_scale",
                      [](QuantConfig& config, std::string_view value) {
                        config.activation_scale = config.weight_scale = ParseScale(value);
                      },
                      [](const QuantConfig& config) { return ScaleWord(config.weight_scale); },
                      /*is_derived=*/true});
  settings.push_back(ScaleSetting("activation_scale",
                                  "how the shared exponent of a block of activations is chosen",
                                  &QuantConfig::activation_scale));
  settings.push_back(ScaleSetting("weight_scale",
                                  "how the shared exponent of a block of weights is chosen",
                                  &QuantConfig::weight_scale));
  settings.push_back({"rounding", "half_to_even|half_away_from_zero|half_up",
                      "how elements are rounded (default half_to_even)",
                      [](QuantConfig& config, std::string_view value) {
                        config.rounding = formats::ParseRoundingMode(value);
                      },
                      [](const QuantConfig& config) {
                        return std::string(formats::RoundingModeName(config.rounding));
                      }});
  settings.push_back(WordSetting<OperatorSet>(
      "operators",
      "whose operator names are written: our own, or AMD Quark's for models that must run in its "
      "library",
      kOperatorSets, &QuantConfig::operators));
  settings.push_back(WordSetting<ShortAxis>(
      "short_axis",
      "weights whose reduction axis is shorter than a block: read the kernel window as one row "
      "(flatten, the default), block along axis 0 (channels), or keep short blocks (axis)",
      kShortAxes, &QuantConfig::short_axis));
  settings.push_back({"exclude_nodes", "REGEX[;REGEX...]",
                      "nodes whose whole name matches stay float",
                      [](QuantConfig& config, std::string_view value) {
                        config.exclude_nodes = ParsePatterns(value);
                      },
                      [](const QuantConfig& config) { return Join(config.exclude_nodes, ";"); }});
  settings.push_back(
      {"exclude_op_types", "OP_TYPE[;OP_TYPE...]", "operators of these types stay float",
       [](QuantConfig& config, std::string_view value) {
         config.exclude_op_types = ParseList(value);
       },
       [](const QuantConfig& config) { return Join(config.exclude_op_types, ";"); }});
  return settings;
}

}  // namespace

// Measured on EfficientNet-Lite0 (docs/accuracy.md). Integer elements round everywhere with the
// same step, so a raised exponent costs a bit in the whole block, more than the few values cost
// that saturate; floating-point elements of 6 and 8 bits lose nothing but their smallest values. A
// weight is quantized once and can afford the search.
ScaleChoice DefaultScaleChoice(const FormatSpec& spec, Role role) {
  if (!spec.is_blocked()) return ScaleChoice::kFloor;  // no shared exponent to choose
  if (role != Role::kActivation) return ScaleChoice::kMse;
  const bool wide_float = formats::IsFloatElement(spec.element_type) && spec.element_bits > 4;
  return wide_float ? ScaleChoice::kCeil : ScaleChoice::kFloor;
}

std::span<const Preset> AllPresets() { return kPresets; }

QuantConfig ConfigByName(std::string_view name) {
  const std::string_view trimmed = Trim(name);
  QuantConfig config;
  std::vector<std::string> known;
  for (const Preset& preset : kPresets) {
    known.emplace_back(preset.name);
    if (ToLower(preset.name) == ToLower(trimmed)) {
      config.name = preset.name;
      config.activations = config.weights = preset.format;
      return config;
    }
  }
  // A spelling with parameters has its own, more precise errors.
  const bool has_parameters = trimmed.find('(') != std::string_view::npos;
  for (const FormatSpec& spec : formats::AllFormats()) known.push_back(spec.name);
  bool is_format = has_parameters;
  for (const FormatSpec& spec : formats::AllFormats()) {
    is_format = is_format || ToLower(trimmed) == spec.name;
  }
  if (!is_format) {
    Fail(ErrorCode::kInvalidArgument,
         "there is no configuration '{}'{}; it is one of {} or the name of a format", name,
         DidYouMean(trimmed, known), Join({known.data(), std::size(kPresets)}, ", "));
  }
  config.name = config.activations = config.weights =
      ParseFormatWord(has_parameters ? std::string(trimmed) : ToLower(trimmed));
  return config;
}

std::span<const Setting> AllSettings() {
  static const std::vector<Setting> settings = MakeSettings();
  return settings;
}

void ApplySetting(QuantConfig& config, std::string_view key, std::string_view value) {
  std::vector<std::string> keys;
  for (const Setting& setting : AllSettings()) {
    if (setting.key == key) {
      WithContext(fmt::format("setting {} ({})", key, setting.allowed),
                  [&] { setting.set(config, value); });
      return;
    }
    keys.emplace_back(setting.key);
  }
  Fail(ErrorCode::kInvalidArgument, "there is no setting '{}'{}; the settings are {}", key,
       DidYouMean(key, keys), Join(keys, ", "));
}

void ApplySetting(QuantConfig& config, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    Fail(ErrorCode::kInvalidArgument, "setting '{}' is not of the form key=value", assignment);
  }
  ApplySetting(config, Trim(assignment.substr(0, equals)), Trim(assignment.substr(equals + 1)));
}

std::optional<FormatSpec> ResolveFormat(const QuantConfig& config, Role role) {
  const std::string& name = role == Role::kActivation ? config.activations
                            : role == Role::kWeight   ? config.weights
                                                      : config.biases;
  if (name == "none") return std::nullopt;
  FormatSpec spec = formats::FindFormat(name);
  const std::optional<ScaleChoice>& wanted =
      role == Role::kActivation ? config.activation_scale : config.weight_scale;
  if (spec.is_blocked()) spec.scale_choice = wanted ? *wanted : DefaultScaleChoice(spec, role);
  spec.rounding = config.rounding;
  if (formats::IsFloatElement(spec.element_type) &&
      spec.rounding != formats::RoundingMode::kHalfToEven) {
    Fail(ErrorCode::kInvalidArgument,
         "setting rounding: elements of {} are floating-point and round half_to_even only, not {}",
         spec.name, formats::RoundingModeName(spec.rounding));
  }
  formats::Validate(spec);
  return spec;
}

void CheckHasOperator(OperatorSet operators, const FormatSpec& spec) {
  if (operators == OperatorSet::kBitpress) return;
  if (spec.family == Family::kFloat && spec.element_type != formats::ElementType::kFloat16 &&
      spec.element_type != formats::ElementType::kBFloat16) {
    Fail(ErrorCode::kUnsupported,
         "com.amd.quark has no operator for format {}; use operators=bitpress, or a block format",
         spec.name);
  }
  if (spec.family == Family::kBlockFloat && spec.exponent_bits != 8) {
    Fail(ErrorCode::kUnsupported,
         "com.amd.quark has no operator for {}: its shared exponents have 8 bits, not {}; use "
         "operators=bitpress",
         spec.name, spec.exponent_bits);
  }
}

bool HasHalfOperator(OperatorSet operators, const FormatSpec& spec) {
  // ExtendedDequantizeLinear gives float32.
  return operators == OperatorSet::kBitpress || spec.is_blocked();
}

std::string_view RoleName(Role role) { return WordOf<Role>(kRoles, role); }
Role ParseRole(std::string_view word) { return ParseWord<Role>(kRoles, word); }
std::string_view OperatorSetName(OperatorSet operators) {
  return WordOf<OperatorSet>(kOperatorSets, operators);
}
OperatorSet ParseOperatorSet(std::string_view word) {
  return ParseWord<OperatorSet>(kOperatorSets, word);
}

}  // namespace bitpress::plan
