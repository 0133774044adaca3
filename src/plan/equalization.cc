#include "plan/equalization.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/model_settings.h"
#include "plan/quant_config.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

constexpr std::array<std::pair<std::string_view, ClipHandling>, 2> kClipHandlings{
    {{"bound", ClipHandling::kBound}, {"keep", ClipHandling::kKeep}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kSwitches{
    {{"on", true}, {"off", false}}};

double ParseBits(std::string_view text) {
  double bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (error != std::errc() || end != text.data() + text.size() || !(bits >= 0) ||
      std::isinf(bits)) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is no number of bits, 0 or more", text);
  }
  return bits;
}

// Reads a number from 0 to 1; nothing for other texts.
std::optional<double> ParseShare(std::string_view text) {
  double share = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && share >= 0 && share <= 1 ? std::optional(share) : std::nullopt;
}

double ParseBiasShare(std::string_view word) {
  if (word == "true") return 1;
  if (word == "false") return 0;
  const std::optional<double> share = ParseShare(word);
  if (!share) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is neither true, false nor a number from 0 to 1", word);
  }
  return *share;
}

std::optional<SmoothWish> ParseSmooth(std::string_view word) {
  if (word == "none") return std::nullopt;
  if (word == "auto") return SmoothWish{.alpha = std::nullopt};
  const std::optional<double> alpha = ParseShare(word);
  if (!alpha) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is neither none, auto nor a number from 0 to 1", word);
  }
  return SmoothWish{.alpha = alpha};
}

int64_t ParseRotation(std::string_view word) {
  if (word == "off") return 0;
  constexpr int64_t kLargest = 1024;
  const int64_t size = ParseInt(word, "rotate");
  if (size < 2 || size > kLargest || !std::has_single_bit(static_cast<uint64_t>(size))) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is neither off nor a power of two from 2 to {}", word,
         kLargest);
  }
  return size;
}

// Returns whether some activations become integers.
bool AsksForIntegers(const QuantConfig& config) {
  const auto is_integer = [](std::string_view format) {
    return format != "none" && formats::FindFormat(format).is_integer();
  };
  return is_integer(config.activations) || std::ranges::any_of(config.rules, [&](const Rule& rule) {
           return std::ranges::any_of(rule.settings, [&](const auto& setting) {
             return setting.first == "activations" && is_integer(setting.second);
           });
         });
}

std::optional<HalfWish> ResolveHalf(const QuantConfig& config) {
  if (!config.is_half_network) return std::nullopt;
  if (AsksForIntegers(config)) {
    Fail(ErrorCode::kInvalidArgument,
         "network=float16 is for activations that stay floats; integers are made of FLOAT values");
  }
  HalfWish wish{config.exclude_nodes, config.exclude_op_types};
  for (const Rule& rule : config.rules) {
    const bool is_simple = rule.exclude && rule.names.empty() && rule.tensors.empty() &&
                           rule.from.empty() && rule.to.empty() && rule.roles.empty() &&
                           rule.layers.empty() && rule.nodes.empty() != rule.op_types.empty();
    if (!is_simple) continue;
    wish.float_nodes.insert(wish.float_nodes.end(), rule.nodes.begin(), rule.nodes.end());
    wish.float_op_types.insert(wish.float_op_types.end(), rule.op_types.begin(),
                               rule.op_types.end());
  }
  return wish;
}

}  // namespace

Rewrites ResolveRewrites(const QuantConfig& config) {
  bool is_on = config.equalize.value_or(false);
  if (!config.equalize && config.weights != "none") {
    is_on = formats::FindFormat(config.weights).is_integer() &&
            config.weight_granularity == Granularity::kPerTensor;
  }
  return {.equalization = is_on ? std::optional(config.equalization) : std::nullopt,
          .rotation = config.rotation,
          .widens_half = AsksForIntegers(config),
          .half = ResolveHalf(config),
          .passes = config.passes};
}

void AddEqualizationSettings(std::vector<Setting>& settings) {
  settings.push_back(
      {"equalize", "on|off|default",
       "scale the channels between two layers so that their weights have equal ranges, which "
       "changes nothing but roundings (default: on for integer weights per_tensor)",
       [](QuantConfig& config, std::string_view value) {
         config.equalize =
             value == "default" ? std::nullopt : std::optional(ParseWord<bool>(kSwitches, value));
       },
       [](const QuantConfig& config) {
         return std::string(config.equalize ? WordOf<bool>(kSwitches, *config.equalize)
                                            : "default");
       }});
  settings.push_back(
      {"equalize_clips", JoinWords<ClipHandling>(kClipHandlings),
       "layers with a Clip such as ReLU6 between them: a Min with one limit a channel behind it "
       "(bound, the default), or leave them alone (keep)",
       [](QuantConfig& config, std::string_view value) {
         config.equalization.clips = ParseClipHandling(value);
       },
       [](const QuantConfig& config) {
         return std::string(ClipHandlingName(config.equalization.clips));
       }});
  settings.push_back({"equalize_clip_gain", "BITS",
                      "the least that both weights together must gain for such a Min (default 1)",
                      [](QuantConfig& config, std::string_view value) {
                        config.equalization.least_clip_gain_bits = ParseBits(value);
                      },
                      [](const QuantConfig& config) {
                        return fmt::format("{}", config.equalization.least_clip_gain_bits);
                      }});
  settings.push_back(
      {"equalize_steps", "N", "rounds over all pairs of layers (default -1: until nothing changes)",
       [](QuantConfig& config, std::string_view value) {
         const int64_t steps = ParseInt(value, "equalize_steps");
         if (steps < -1) {
           Fail(ErrorCode::kInvalidArgument, "{} is no number of rounds", steps);
         }
         config.equalization.num_steps = steps;
       },
       [](const QuantConfig& config) { return std::to_string(config.equalization.num_steps); }});
  settings.push_back(
      {"equalize_bias", "true|false|SHARE",
       "a channel's range includes its bias, or a share of it (default true: 1)",
       [](QuantConfig& config, std::string_view value) {
         config.equalization.bias_share = ParseBiasShare(value);
       },
       [](const QuantConfig& config) -> std::string {
         const double share = config.equalization.bias_share;
         return share == 1 ? "true" : share == 0 ? "false" : fmt::format("{}", share);
       }});
  settings.push_back(
      {"rotate", "off|SIZE",
       "turn the inputs of matrix products, and their weights likewise, in blocks of so many "
       "elements (a power of two: that of the format's blocks) by a Hadamard matrix, which spreads "
       "large elements; for activations of four bits (default off)",
       [](QuantConfig& config, std::string_view value) { config.rotation = ParseRotation(value); },
       [](const QuantConfig& config) {
         return config.rotation == 0 ? "off" : std::to_string(config.rotation);
       }});
  settings.push_back(
      {"smooth_quant", "none|auto|ALPHA",
       "SmoothQuant: move the range of large channels of activations into the weights of MatMul "
       "and "
       "Gemm; how much of it, 0 to 1 (0.5 is usual), or the best for each activation (default "
       "none)",
       [](QuantConfig& config, std::string_view value) { config.smooth = ParseSmooth(value); },
       [](const QuantConfig& config) -> std::string {
         if (!config.smooth) return "none";
         return config.smooth->alpha ? fmt::format("{}", *config.smooth->alpha) : "auto";
       }});
}

std::string_view ClipHandlingName(ClipHandling handling) {
  return WordOf<ClipHandling>(kClipHandlings, handling);
}
ClipHandling ParseClipHandling(std::string_view word) {
  return ParseWord<ClipHandling>(kClipHandlings, word);
}

}  // namespace bitpress::plan
