// The table of settings, with one row for each field of QuantConfig.
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "plan/joined_operators.h"
#include "plan/model_settings.h"
#include "plan/name_pattern.h"
#include "plan/quant_config.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

using formats::ScaleChoice;

// Returns a format's name in its canonical spelling, or "none".
std::string ParseFormatWord(std::string_view word) {
  const std::string_view trimmed = Trim(word);
  if (ToLower(trimmed) == "none") return "none";
  return formats::FindFormat(trimmed).name;
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
  for (const std::string& pattern : patterns) NamePattern{pattern};  // throws if it is none
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

// A format that follows from other settings unless the user says one.
Setting DefaultedFormatSetting(std::string_view key, std::string_view help,
                               std::string QuantConfig::*field) {
  return {key, "FORMAT|none|default", help,
          [field](QuantConfig& config, std::string_view value) {
            const bool is_default = ToLower(Trim(value)) == "default";
            config.*field = is_default ? "default" : ParseFormatWord(value);
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

constexpr std::string_view kRoundingWords = "half_to_even|half_away_from_zero|half_up";

Setting RoundingSetting(std::string_view key, std::string_view help,
                        formats::RoundingMode QuantConfig::*field) {
  return {key, std::string(kRoundingWords), help,
          [field](QuantConfig& config, std::string_view value) {
            config.*field = formats::ParseRoundingMode(value);
          },
          [field](const QuantConfig& config) {
            return std::string(formats::RoundingModeName(config.*field));
          }};
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

constexpr std::array<std::pair<std::string_view, std::optional<bool>>, 3> kSymmetric{
    {{"true", true}, {"false", false}, {"default", std::nullopt}}};

Setting SymmetricSetting(std::string_view key, std::string_view help,
                         std::optional<bool> QuantConfig::*field) {
  return WordSetting<std::optional<bool>>(key, help, kSymmetric, field);
}

Setting ScaleKindSetting(std::string_view key, std::string_view help,
                         formats::ScaleKind QuantConfig::*field) {
  return {key, "float|power_of_two|int16", help,
          [field](QuantConfig& config, std::string_view value) {
            config.*field = formats::ParseScaleKind(value);
          },
          [field](const QuantConfig& config) {
            return std::string(formats::ScaleKindName(config.*field));
          }};
}

Setting RangeSetting(std::string_view key, std::string_view help, RangeMethod QuantConfig::*field) {
  return {key, RangeMethodWords(), help,
          [field](QuantConfig& config, std::string_view value) {
            const RangeMethod method = ParseRangeMethod(value);
            if (field == &QuantConfig::weight_range && method.is_dynamic()) {
              Fail(ErrorCode::kInvalidArgument,
                   "weights do not change from inference to inference");
            }
            config.*field = method;
            // Who asks for a method of activations gets it.
            if (field == &QuantConfig::activation_range) config.guard_ranges.clear();
          },
          [field](const QuantConfig& config) { return RangeMethodName(config.*field); }};
}

Setting BoolSetting(std::string_view key, std::string_view help, bool QuantConfig::*field) {
  return WordSetting<bool>(key, help, kTruths, field);
}

constexpr std::array<std::pair<std::string_view, bool>, 2> kNetworks{
    {{"given", false}, {"float16", true}}};

// Adds the settings of the key-value caches of decoders.
void AddCacheSettings(std::vector<Setting>& settings) {
  Setting format = FormatSetting(
      "kv_cache",
      "format of the key-value caches of a decoder: int8 or int4 with scales from samples, which "
      "GroupQueryAttention holds as codes; another format rounds what enters a cache of floats",
      &QuantConfig::kv_cache);
  format.is_quiet = true;
  settings.push_back(std::move(format));
  settings.push_back(
      {"kv_cache_granularity", "per_axis|per_tensor",
       "integers of kv_cache: a scale for each head and channel (per_axis, the default), or one "
       "for keys and one for values",
       [](QuantConfig& config, std::string_view value) {
         const Granularity granularity = ParseGranularity(value);
         if (granularity == Granularity::kPerBlock) {
           Fail(ErrorCode::kInvalidArgument, "caches have no blocks: per_axis or per_tensor");
         }
         config.kv_cache_granularity = granularity;
       },
       [](const QuantConfig& config) {
         return std::string(GranularityName(config.kv_cache_granularity));
       },
       /*is_derived=*/false, /*is_quiet=*/true});
  settings.push_back(
      {"kv_cache_range", "mse|min_max",
       "integers of kv_cache: the scale of the least squared error (mse, the default), or the "
       "largest magnitude",
       [](QuantConfig& config, std::string_view value) {
         const RangeMethod method = ParseRangeMethod(value);
         if (method.kind != RangeMethod::Kind::kMse && method.kind != RangeMethod::Kind::kMinMax) {
           Fail(ErrorCode::kInvalidArgument, "caches take mse or min_max, not {}", value);
         }
         config.kv_cache_range = method;
       },
       [](const QuantConfig& config) { return RangeMethodName(config.kv_cache_range); },
       /*is_derived=*/false, /*is_quiet=*/true});
}

// Adds the settings that only integer formats need.
void AddIntegerSettings(std::vector<Setting>& settings) {
  settings.push_back(
      SymmetricSetting("activation_symmetric",
                       "integers: zero in the middle of the codes (default: true for signed types)",
                       &QuantConfig::activation_symmetric));
  settings.push_back(SymmetricSetting("weight_symmetric", "the same for weights (default: true)",
                                      &QuantConfig::weight_symmetric));
  settings.push_back(ScaleKindSetting("activation_scale_kind",
                                      "integers: which scales are allowed (int16: M / 2^N)",
                                      &QuantConfig::activation_scale_kind));
  settings.push_back(ScaleKindSetting("weight_scale_kind", "the same for weights",
                                      &QuantConfig::weight_scale_kind));
  settings.push_back(RangeSetting(
      "activation_range",
      "integers: how a range follows from the calibration (default percentile(99.999)); dynamic: "
      "no calibration, from each tensor when it is there (uint8 inputs of MatMul, Gemm, Conv, "
      "LSTM); dynamic_rows: for MatMul and Gemm from each row, such as a token, and convolutions "
      "stay float",
      &QuantConfig::activation_range));
  settings.push_back(RangeSetting("weight_range", "the same for weights (default min_max)",
                                  &QuantConfig::weight_range));
  settings.push_back(WordSetting<Granularity>(
      "weight_granularity",
      "integers: one scale for a weight, for each output channel (per_axis, the default), or for "
      "each block of weight_block_size elements of a sum",
      kGranularities, &QuantConfig::weight_granularity));
  settings.push_back(
      {"weight_block_size", "N", "elements that share a scale (per_block only)",
       [](QuantConfig& config, std::string_view value) {
         config.weight_block_size = ParseInt(value, "weight_block_size");
         if (config.weight_block_size < 1 || config.weight_block_size > formats::kMaxBlockSize) {
           Fail(ErrorCode::kInvalidArgument, "{} is no size of a block (1 to {})",
                config.weight_block_size, formats::kMaxBlockSize);
         }
       },
       [](const QuantConfig& config) { return std::to_string(config.weight_block_size); }});
  settings.push_back(WordSetting<IntegerKernels>(
      "integer_kernels",
      "int8 weights behind uint8 activations: x86 processors without VNNI add two products in "
      "saturating 16 bits. Choose codes whose sums fit, at the least loss, and uint8 for the few "
      "layers that still lose more than 2 dB (safe, the default), the same without uint8 "
      "(safe_int8), any codes, for processors with VNNI only (vnni), or 7 bits in every weight "
      "(reduce_range)",
      kIntegerKernels, &QuantConfig::integer_kernels));
  settings.push_back(
      {"reduce_range", "true|false", "true: integer_kernels=reduce_range, other tools' word for it",
       [](QuantConfig& config, std::string_view value) {
         if (ParseWord<bool>(kTruths, value)) {
           config.integer_kernels = IntegerKernels::kReduceRange;
         } else if (config.integer_kernels == IntegerKernels::kReduceRange) {
           config.integer_kernels = IntegerKernels::kSafe;
         }
       },
       [](const QuantConfig& config) -> std::string {
         return config.integer_kernels == IntegerKernels::kReduceRange ? "true" : "false";
       },
       /*is_derived=*/true});
  settings.push_back(
      {"calibration_samples", "N",
       "scales of activations follow from so many samples at most; 0: all (default). This says "
       "nothing about finetune_samples",
       [](QuantConfig& config, std::string_view value) {
         const int64_t number = ParseInt(value, "calibration_samples");
         if (number < 0) Fail(ErrorCode::kInvalidArgument, "{} is no number of samples", number);
         config.calibration_samples = number;
       },
       [](const QuantConfig& config) { return std::to_string(config.calibration_samples); },
       /*is_derived=*/false, /*is_quiet=*/true});
  AddGuardSettings(settings);
}

std::vector<Setting> MakeSettings() {
  std::vector<Setting> settings;
  settings.push_back(
      FormatSetting("activations", "format of the activations", &QuantConfig::activations));
  settings.push_back(FormatSetting("weights", "format of the weights", &QuantConfig::weights));
  settings.push_back(DefaultedFormatSetting(
      "biases",
      "format of the biases (default: float, or int32 with the scale of the products where these "
      "are integers; none: float; other integers have a scale of their own)",
      &QuantConfig::biases));
  settings.push_back(DefaultedFormatSetting(
      "embeddings",
      "format of the tables that Gather looks rows up in (default: that of blocks of 8 bits and "
      "more, mxint8 beside narrower blocks, 16 bits beside 16 bits, 8 beside dynamic integers, "
      "else float)",
      &QuantConfig::embeddings));
  AddCacheSettings(settings);
  settings.push_back(
      {"network", "given|float16",
       "float16: the network itself becomes one of FLOAT16, as FP16 makes it: constants and "
       "activations; inputs and outputs keep their type, and operators that need it keep FLOAT",
       [](QuantConfig& config, std::string_view value) {
         config.is_half_network = ParseWord<bool>(kNetworks, value);
       },
       [](const QuantConfig& config) {
         return std::string(WordOf<bool>(kNetworks, config.is_half_network));
       },
       /*is_derived=*/false, /*is_quiet=*/true});
  settings.push_back(WordSetting<Placement>(
      "placement",
      "quantize around the operators that multiply (compute), around every operator (all), or "
      "around those that ONNX Runtime runs on integers, outputs included (qdq); default: qdq "
      "where activations are integers, else compute",
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
  settings.push_back(
      {"rounding", std::string(kRoundingWords), "sets activation_rounding and weight_rounding",
       [](QuantConfig& config, std::string_view value) {
         config.activation_rounding = config.weight_rounding = formats::ParseRoundingMode(value);
       },
       [](const QuantConfig& config) {
         return std::string(formats::RoundingModeName(config.weight_rounding));
       },
       /*is_derived=*/true});
  settings.push_back(RoundingSetting(
      "activation_rounding", "how elements of activations are rounded (default half_to_even)",
      &QuantConfig::activation_rounding));
  settings.push_back(RoundingSetting("weight_rounding", "the same for weights and biases",
                                     &QuantConfig::weight_rounding));
  settings.push_back(WordSetting<OperatorSet>(
      "operators",
      "whose operator names are written: our own, AMD Quark's for models that must run in its "
      "library, or ONNX's Cast there and back (bf16, fp16, fp8), or "
      "Casts for bf16 and AMD Quark's for all others (quark_cast)",
      kOperatorSets, &QuantConfig::operators));
  settings.push_back(WordSetting<ops::ShortAxis>(
      "short_axis",
      "weights whose reduction axis is shorter than a block: read the kernel window as one row "
      "(flatten, the default), block along axis 0 (channels), or keep short blocks (axis)",
      kShortAxes, &QuantConfig::short_axis));
  settings.push_back(
      {"block_axis", "N|default",
       "axis of blocks around convolutions and operators that do not multiply, negative: from the "
       "end; of values with fewer axes the last (default: the channels). Blocks of matrix products "
       "always run along the axis that is summed over",
       [](QuantConfig& config, std::string_view value) {
         config.block_axis = value == "default"
                                 ? std::nullopt
                                 : std::optional<int64_t>(ParseInt(value, "block_axis"));
       },
       [](const QuantConfig& config) {
         return config.block_axis ? std::to_string(*config.block_axis) : std::string("default");
       }});
  AddIntegerSettings(settings);
  settings.push_back(
      {"finetune", FinetunePassWords(),
       "learns weights from samples: one of these recipes, or passes joined by +",
       [](QuantConfig& config, std::string_view value) {
         config.finetune = ParseFinetunePasses(value);
       },
       [](const QuantConfig& config) { return FinetunePassNames(config.finetune); }});
  AddFinetuneSettings(settings);
  AddEqualizationSettings(settings);
  settings.push_back(BoolSetting(
      "activation_scaled",
      "bf16, fp16, fp8: divide by a scale of the tensor, from the calibration, before rounding: "
      "against overflow (default false)",
      &QuantConfig::activation_scaled));
  settings.push_back(BoolSetting("weight_scaled", "the same for weights, from their largest value",
                                 &QuantConfig::weight_scaled));
  settings.push_back(BoolSetting(
      "dual_quant",
      "where an operator reads a value in another format than its producer's activations have, "
      "round it to both, the producer's first (AMD Quark's DualQuantNodes; default false)",
      &QuantConfig::dual_quant));
  settings.push_back(
      {"float_between", "OP_TYPE>OP_TYPE[;...]",
       "values between such operators get no quantizer if nothing else reads them, as AMD Quark's "
       "RemoveQDQ words have it: 'Conv>Relu;Conv>Relu6' (a Clip from 0 to 6 is Relu6, one to 1 "
       "Relu1). This is for formats without blocks and placements all and compute",
       [](QuantConfig& config, std::string_view value) {
         config.float_between = ParseList(value);
         for (const std::string& pair : config.float_between) CheckJoinedPair(pair);
       },
       [](const QuantConfig& config) { return Join(config.float_between, ";"); },
       /*is_derived=*/false, /*is_quiet=*/true});
  settings.push_back(
      {"passes", "PASS=WORD[;...]",
       "passes of the preparation that run on request, each with a word of its setting",
       [](QuantConfig& config, std::string_view value) { config.passes = ParseList(value); },
       [](const QuantConfig& config) { return Join(config.passes, ";"); },
       /*is_derived=*/false, /*is_quiet=*/true});
  Setting blocks = BoolSetting("float_between_blocks",
                               "float_between is for formats with blocks, too (default false)",
                               &QuantConfig::float_between_blocks);
  blocks.is_quiet = true;
  settings.push_back(std::move(blocks));
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

}  // namespace bitpress::plan
