// The task `search`: a plan that gives each layer one of the candidate formats, for a target or
// within a budget.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/quant_plan.h"
#include "search/candidates.h"
#include "search/search.h"
#include "search/sensitivity.h"
#include "tasks/metric.h"
#include "tasks/search_space.h"

namespace bitpress::tasks {

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

}  // namespace bitpress::tasks
