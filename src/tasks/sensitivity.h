// The task `sensitivity`: what each layer of a model loses in each candidate format.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "search/candidates.h"
#include "search/sensitivity.h"
#include "tasks/search_space.h"

namespace bitpress::tasks {

struct SensitivityOptions : SpaceOptions {
  // A JSON file. Written as by Quantize; `<output>.journal` is there until then.
  std::filesystem::path output;
  bool measures_time = false;  // of each layer in each candidate, too
};

struct SensitivityReport {
  search::Space space;
  search::Sensitivity sensitivity;
  std::optional<double> rank_correlation;  // of fast with exact
};

// Measures what each layer costs in each candidate, see search/sensitivity.h. Throws Error.
SensitivityReport MeasureSensitivity(const SensitivityOptions& options);

// What is written there.
nlohmann::ordered_json ToJson(const SensitivityReport& report);

}  // namespace bitpress::tasks
