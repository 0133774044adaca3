// The command lines on a report's page, with which a reader makes its model and figures again.
// Names of files are quoted for a shell. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/quant_config.h"

namespace bitpress::report {

// Returns `bitpress quantize` with the preset that the configuration names and the settings that
// differ from it.
std::string QuantizeCommand(const plan::QuantConfig& config, const std::string& reference,
                            const std::string& model);
// Returns `bitpress quantize` with a plan.
std::string QuantizeCommand(const std::filesystem::path& plan_file, const std::string& reference,
                            const std::string& model);

// Returns `bitpress evaluate` with those options that have a value.
std::string EvaluateCommand(const std::string& model,
                            const std::vector<std::pair<std::string_view, std::string>>& options);

}  // namespace bitpress::report
