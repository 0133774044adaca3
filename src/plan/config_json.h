// QuantConfig as a JSON object, for files that hold one inside another document. Part of this
// room's JSON files; others use ToJson and ConfigFromJson of quant_config.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/quant_config.h"

namespace bitpress::plan {

// See ConfigFromJson; `where` is put in front of messages.
QuantConfig ReadConfig(const nlohmann::json& object, const std::string& where);

}  // namespace bitpress::plan
