// The common part of the tasks `sensitivity` and `search`: the model, its candidate formats, and
// the statistics for them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "evaluate/evaluate.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "rewrite/prepare.h"
#include "search/candidates.h"
#include "search/search.h"
#include "search/sensitivity.h"
#include "tasks/run.h"
#include "tasks/trials.h"

namespace bitpress::tasks {

// The options that both tasks have.
// With an opener of samples, no measurement is kept for another run, because nothing tells whether
// the samples are the same then.
struct SpaceOptions : RunOptions {
  std::filesystem::path model;
  // The candidates, as search::ParseCandidates reads them; see search::MakeSpace.
  std::string candidates, weight_candidates, activation_candidates;
  // The configuration of everything that no choice is about. Nothing: the finest candidates.
  std::optional<plan::QuantConfig> base;
  // Changes the base, whether it is given or not: settings, rules that exclude, fine-tuning. May be
  // empty.
  std::function<void(plan::QuantConfig&)> change_base;
  // In place of candidates: the settings that a layer may have instead of the base's, as
  // search::MakeVariantSpace takes them. `base` must be given, and may hold any rules.
  std::vector<search::Settings> variants;
  // The layers that are searched; all others stay as the base has them.
  search::LayerSelection selection;
  // The position of the only output of the model that losses are about. Nothing: all outputs.
  std::optional<size_t> output_index;
  // The task in whose terms whole models are measured, as EvaluateOptions::task.
  std::string task = "auto";
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  search::Method method = search::Method::kFast;
  size_t num_sensitivity_samples = 0;  // the first ones of `samples`; 0: 32, of tokens 2
};

class SearchSpace {
 public:
  // Reads and plans the model. `options` must outlive the space. Throws Error for errors in
  // candidates or model, and for missing samples for integers.
  explicit SearchSpace(const SpaceOptions& options);

  const search::Space& space() const { return space_; }
  const graph::Model& model() const { return model_; }
  const std::vector<plan::ResolvedPlan>& parts() const { return parts_; }
  const search::SearchLayers& layers() const { return layers_; }

  // Measures the sensitivity of the layers. `journal` keeps the measurements under `key`, the
  // result of Key(). Both may be empty. With a shard, only its layers are measured.
  search::Sensitivity Measure(const std::filesystem::path& journal, const std::string& key,
                              bool measures_time, ThreadPool& pool, data::Shard layers = {}) const;
  // Returns the plan that gives each group the formats of `choice`.
  plan::QuantPlan PlanOf(const std::vector<search::LayerGroup>& groups,
                         const search::Sensitivity& sensitivity,
                         const search::Choice& choice) const;
  // Returns the plan of all that no choice is about, such as embeddings, key-value caches and kept
  // layers. The layers that were measured stay float.
  plan::QuantPlan PlanOfRest(const search::Sensitivity& sensitivity) const;
  // Compares the plan's model with the float model on all samples, before fine-tuning. Throws
  // Error.
  search::Measurement MeasurePlan(plan::QuantPlan plan, size_t batch_size, const Trials& trials,
                                  ThreadPool& pool) const;
  // Returns a text of everything that measurements depend on: the versions of Bitpress and ONNX
  // Runtime, the model, the candidates and the content of all samples, which are read for that.
  // Threads, batches and progress change no measurement, so they are not in it. Throws Error if
  // samples cannot be read.
  std::string Key() const;

 private:
  void PlanParts();
  size_t NumSensitivitySamples() const;

  SpaceOptions options_;
  search::Space space_;
  graph::Model model_;
  calibrate::CalibrationTable table_;
  std::vector<plan::ResolvedPlan> parts_;
  search::SearchLayers layers_;
};

// Returns the figures of an evaluation that count for a search, and those of the caller's own
// measure of `model`.
search::Measurement ToMeasurement(const evaluate::EvaluationReport& report, const Trials& trials,
                                  const std::filesystem::path& model);

// Returns the file beside `output` that keeps measurements. Returns "" if nothing tells which
// samples they belong to.
std::filesystem::path JournalBeside(const std::filesystem::path& output,
                                    const SpaceOptions& options, const char* suffix = ".journal");

// Returns the key of these journals, or "" if there are none.
std::string KeyOf(const SearchSpace& space, const SpaceOptions& options);

// Removes a journal, if it exists.
void RemoveJournal(const std::filesystem::path& journal);

}  // namespace bitpress::tasks
