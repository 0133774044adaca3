#include "plan/equalization.h"

#include <algorithm>

#include "base/error.h"
#include "plan/quant_config.h"

namespace bitpress::plan {
namespace {

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

std::optional<HalfRequest> ResolveHalf(const QuantConfig& config) {
  if (config.network == Network::kGiven) return std::nullopt;
  if (AsksForIntegers(config)) {
    Fail(ErrorCode::kInvalidArgument,
         "network=float16 is for activations that stay floats; integers are made of FLOAT values");
  }
  HalfRequest request{config.exclude_nodes, config.exclude_op_types};
  for (const Rule& rule : config.rules) {
    const bool is_simple = rule.exclude && rule.names.empty() && rule.tensors.empty() &&
                           rule.from.empty() && rule.to.empty() && rule.roles.empty() &&
                           rule.layers.empty() && rule.nodes.empty() != rule.op_types.empty();
    if (!is_simple) continue;
    request.float_nodes.insert(request.float_nodes.end(), rule.nodes.begin(), rule.nodes.end());
    request.float_op_types.insert(request.float_op_types.end(), rule.op_types.begin(),
                                  rule.op_types.end());
  }
  return request;
}

}  // namespace

Rewrites ResolveRewrites(const QuantConfig& config) {
  bool is_on = config.equalize.value_or(false);
  if (!config.equalize && config.weights != "none") {
    is_on = formats::FindFormat(config.weights).is_integer() &&
            config.weight_granularity == Granularity::kPerTensor;
  }
  return {.equalization = is_on ? std::optional(config.equalization) : std::nullopt,
          .rotation = config.rotate,
          .widens_half = AsksForIntegers(config),
          .half = ResolveHalf(config),
          .passes = config.passes};
}

}  // namespace bitpress::plan
