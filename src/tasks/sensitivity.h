// The task `sensitivity`: measures the loss of each layer of a model in each candidate format. Use
// it to see which layers need a finer format.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "search/candidates.h"
#include "search/sensitivity.h"
#include "tasks/search_space.h"

namespace bitpress::tasks {

struct SensitivityOptions : SpaceOptions {
  // The JSON file of the report. Written as by Quantize; `<output>.journal` exists until then.
  std::filesystem::path output;
  bool measures_time = false;  // the time of each layer in each candidate, too
};

struct SensitivityReport {
  search::Space space;
  search::Sensitivity sensitivity;
  std::optional<double> rank_correlation;  // between the fast and the exact method
};

// Measures the cost of each layer in each candidate, see search/sensitivity.h. Throws Error.
SensitivityReport MeasureSensitivity(const SensitivityOptions& options);

// Returns the JSON that MeasureSensitivity writes.
nlohmann::ordered_json ToJson(const SensitivityReport& report);

}  // namespace bitpress::tasks
