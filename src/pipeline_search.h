// Mixed precision from start to end: sensitivity of the layers, and the search for a plan.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "pipeline.h"
#include "pipeline_metric.h"
#include "search/candidates.h"
#include "search/search.h"
#include "search/sensitivity.h"

namespace bitpress::pipeline {

// What all of this begins with.
struct SpaceOptions {
  std::filesystem::path model;
  std::filesystem::path data;        // a folder, see data::OpenSource
  std::filesystem::path labels_csv;  // of the files that count; empty: all
  std::string image;                 // see data::ParseImageSpec; empty: the data are no photos
  // Opens samples instead of `data` and `labels_csv`, several times, one after the other. What was
  // measured is not kept for another run then: nothing tells whether they are the same.
  data::SourceOpener open_source;
  size_t num_samples = 0;  // at most; 0: all
  // Candidates as search::ParseCandidates reads them; see search::MakeSpace.
  std::string candidates, weight_candidates, activation_candidates;
  // Of everything that no choice is about; nothing: the finest candidates.
  std::optional<plan::QuantConfig> base;
  // Changes the base, given or not: settings, rules that exclude, fine-tuning. May be empty.
  std::function<void(plan::QuantConfig&)> change_base;
  Preparation preparation = Preparation::kOptimize;
  search::Method method = search::Method::kFast;
  size_t num_sensitivity_samples = 32;  // of them, from the start
  size_t num_threads = 0;               // 0: one per core
  ProgressSink progress;                // may be empty
};

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

struct SearchOptions : SpaceOptions {
  // The plan, for Quantize with the same model, samples and image. Written as by Quantize;
  // `<output>.journal` and `<output>.trials` are there until then.
  std::filesystem::path output;
  std::filesystem::path report;   // a JSON file, see ToJson; empty: none
  std::filesystem::path picture;  // the front as SVG; empty: none
  search::SearchGoals goals;
  // What choices cost; a budget says it too. Nothing: the budget's, or bits.
  std::optional<search::CostKind> cost;
  size_t batch_size = 20;  // of the models that are measured
  // For targets "metric" and "metric_drop": of the float model first, then of every model that is
  // measured, none of which is remembered for another run. May be empty.
  ModelMetric metric;
};

struct SearchReport {
  search::Space space;
  search::Sensitivity sensitivity;
  search::CostKind cost = search::CostKind::kBits;
  std::vector<search::LayerGroup> groups;
  search::SearchGoals goals;
  search::SearchResult result;
  plan::QuantPlan plan;  // of the chosen point
  // Groups of that point that lose most, with their predicted noise.
  std::vector<std::pair<size_t, double>> worst;
  // Of the plan, applied as by Quantize; after fine-tuning, if the base asks for it.
  search::Measurement final_measurement;

  // What group `group` gets at `choice`: "mx6" or "weights mxfp4_e2m1, activations mx9".
  std::string Describe(const search::Choice& choice, size_t group) const;
};

// Searches formats for the layers, verifies them by running quantized models on the samples against
// the float one, and writes the plan. A target that cannot be reached is no error: the best plan is
// written, and the result says why. Throws Error; nothing is left behind then but the journal.
SearchReport Search(const SearchOptions& options);

nlohmann::ordered_json ToJson(const SearchReport& report);
// Reads a file of that JSON, for pictures of the front: without the layers of each point, and with
// the cost's name for people, "cost_label". Throws Error(kInvalidArgument) if it is none.
nlohmann::ordered_json ReadSearchReport(const std::filesystem::path& path);

}  // namespace bitpress::pipeline
