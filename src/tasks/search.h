// The task `search`: makes a plan that gives each layer one of the candidate formats. Use it to
// reach a target, or to stay within a budget, with mixed formats.
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
  // The plan's file, for Quantize with the same model, samples and image. Written as by Quantize.
  // `<output>.journal` and `<output>.trials` exist until then.
  std::filesystem::path output;
  std::filesystem::path report;   // a JSON file, see ToJson; empty: none
  std::filesystem::path picture;  // the front as SVG; empty: none
  search::SearchGoals goals;
  // The cost of choices. Nothing: the cost that the budget names, or bits.
  std::optional<search::CostKind> cost;
  search::Bindings bindings;  // the layers of transformers that get one format
  size_t batch_size = 20;     // for the models that are measured
  // The caller's own measure, for targets "metric" and "metric_drop". It measures the float model
  // first, then every other model. Its results are not kept for another run. May be empty.
  ModelMetric metric;
};

struct SearchReport {
  search::Space space;
  search::Sensitivity sensitivity;
  search::CostKind cost = search::CostKind::kBits;
  search::Bindings bindings;
  std::vector<search::LayerGroup> groups;
  search::SearchGoals goals;
  // The measured noise of all that no choice is about, which predictions contain.
  double rest_noise = 0;
  search::SearchResult result;
  plan::QuantPlan plan;  // the plan of the chosen point
  // The groups of the chosen point that lose most, with their predicted noise.
  std::vector<std::pair<size_t, double>> worst;
  // The measurement of the plan, applied as by Quantize. It follows fine-tuning if the base asks
  // for that.
  search::Measurement final_measurement;

  // Returns the formats of group `group` at `choice`: "mx6" or "weights mxfp4_e2m1, activations
  // mx9".
  std::string Describe(const search::Choice& choice, size_t group) const;
};

// Searches formats for the layers. Verifies them by running quantized models and the float model on
// the samples. Writes the plan. A target that cannot be reached is no error: the best plan is
// written, and the result gives the reason. Throws Error; leaves nothing but the journal behind
// then.
SearchReport Search(const SearchOptions& options);

nlohmann::ordered_json ToJson(const SearchReport& report);
// Reads a file of that JSON, for pictures of the front. The result has no layers of points. It has
// the cost's name for people, "cost_label". Throws Error(kInvalidArgument) if the file is no such
// JSON.
nlohmann::ordered_json ReadSearchReport(const std::filesystem::path& path);

}  // namespace bitpress::tasks
