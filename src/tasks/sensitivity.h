// The task `sensitivity`: measures the loss of each layer of a model in each candidate format. Use
// it to see which layers need a finer format.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "data/source.h"
#include "search/candidates.h"
#include "search/sensitivity.h"
#include "tasks/search_space.h"

namespace bitpress::tasks {

struct SensitivityOptions : SpaceOptions {
  // The JSON file of the report. Written as by Quantize; `<output>.journal` exists until then.
  std::filesystem::path output;
  bool measures_time = false;  // the time of each layer in each candidate, too
  std::optional<data::Shard> layers = std::nullopt;  // the layers to measure; null: all
};

struct SensitivityReport {
  search::Space space;
  search::Sensitivity sensitivity;
  std::optional<double> rank_correlation;  // between the fast and the exact method
};

// Measures the cost of each layer in each candidate, see search/sensitivity.h. Throws Error.
//
// With `layers`, the report has only these, and `output` becomes a journal. MergeSensitivities
// makes one journal of those of all shards, and a sensitivity or a search whose `<output>.journal`
// it is goes on from there: nothing is measured twice, and the result has the same bytes. A shard
// that was stopped goes on from its own file.
SensitivityReport MeasureSensitivity(const SensitivityOptions& options);

// Writes the journal of all shards, and returns the number of layers in it. Throws Error naming the
// file that does not fit.
size_t MergeSensitivities(std::span<const std::filesystem::path> paths,
                          const std::filesystem::path& output);
// Returns whether a file starts like a journal. Returns false if it cannot be read.
bool IsSensitivityJournal(const std::filesystem::path& path);

// Returns the JSON that MeasureSensitivity writes.
nlohmann::ordered_json ToJson(const SensitivityReport& report);

}  // namespace bitpress::tasks
