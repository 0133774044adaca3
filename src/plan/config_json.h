// QuantConfig as a JSON object inside another document, such as a plan. Only the JSON readers of
// this room use it; others use ToJson and ConfigFromJson of quant_config.h. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/quant_config.h"

namespace bitpress::plan {

// Reads a configuration as ConfigFromJson does. `where` is put in front of messages.
QuantConfig ReadConfig(const nlohmann::json& object, const std::string& where);

// Reads a rule: an object with selectors and settings. Throws Error(kInvalidArgument).
Rule RuleFromJson(const nlohmann::json& object);

}  // namespace bitpress::plan
