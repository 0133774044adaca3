// The algorithms of AMD Quark's QConfig, the list algo_config: as settings, and back. Python's
// bitpress.compat.quark has the same words, and a test holds that both mean the same.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/quant_config.h"

namespace bitpress::interop {

// Returns the settings that the algorithms mean, in the order in which they are applied, and
// appends to `notes` what no setting means. Throws Error(kInvalidArgument) naming the algorithm if
// it or one of its words is unknown, or a word has no such value.
std::vector<std::pair<std::string, std::string>> ReadAlgorithms(const nlohmann::json& algorithms,
                                                                std::vector<std::string>& notes);

// Returns the algorithms that mean what the configuration does to layers before they are quantized
// and learns from samples, and appends to `notes` what Quark has no words for.
nlohmann::ordered_json WriteAlgorithms(const plan::QuantConfig& config,
                                       std::vector<std::string>& notes);

}  // namespace bitpress::interop
