// What sensitivity and search share: the model, what may become of it, and the statistics for that.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "data/source.h"
#include "evaluate/evaluate.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "rewrite/prepare.h"
#include "search/candidates.h"
#include "search/search.h"
#include "search/sensitivity.h"
#include "tasks/metric.h"

namespace bitpress::tasks {

// The options that both tasks have.
struct SpaceOptions {
  std::filesystem::path model;
  // With an opener nothing that was measured is kept for another run: nothing tells whether the
  // samples are the same then.
  data::SampleSpec samples;
  // Candidates as search::ParseCandidates reads them; see search::MakeSpace.
  std::string candidates, weight_candidates, activation_candidates;
  // Of everything that no choice is about; nothing: the finest candidates.
  std::optional<plan::QuantConfig> base;
  // Changes the base, given or not: settings, rules that exclude, fine-tuning. May be empty.
  std::function<void(plan::QuantConfig&)> change_base;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  search::Method method = search::Method::kFast;
  size_t num_sensitivity_samples = 32;  // of them, from the start
  size_t num_threads = 0;               // 0: one per core
  ProgressSink progress;                // may be empty
};

// The caller's own measure, and what it gives for the float model.
struct OwnMeasure {
  // Throws Error if it gives no number. `metric` may be empty.
  OwnMeasure(ModelMetric metric, const std::filesystem::path& reference);
  void AddTo(search::Measurement& measurement, const std::filesystem::path& model) const;

  ModelMetric metric;
  std::optional<double> reference;
};

class SearchSpace {
 public:
  // `options` must outlive it. Throws Error: candidates, the model, samples for integers.
  explicit SearchSpace(const SpaceOptions& options);

  const search::Space& space() const { return space_; }
  const graph::Model& model() const { return model_; }
  const std::vector<plan::ResolvedPlan>& parts() const { return parts_; }

  // `key` is that of Key(), for the journal; both may be empty.
  search::Sensitivity Measure(const std::filesystem::path& journal, const std::string& key,
                              bool measures_time, ThreadPool& pool) const;
  // The plan that gives each group what `choice` says.
  plan::QuantPlan PlanOf(const std::vector<search::LayerGroup>& groups,
                         const search::Sensitivity& sensitivity,
                         const search::Choice& choice) const;
  // That plan's model against the float one on all samples, before fine-tuning. Throws Error.
  search::Measurement MeasurePlan(plan::QuantPlan plan, size_t batch_size, const OwnMeasure& own,
                                  ThreadPool& pool) const;
  // Returns what measurements depend on: the versions of Bitpress and ONNX Runtime, the model, the
  // candidates and the content of all samples, which are read for that. Threads, batches and
  // progress change no measurement and are not in it. Throws Error: samples that cannot be read.
  std::string Key() const;

 private:
  void PlanParts();

  const SpaceOptions& options_;
  search::Space space_;
  graph::Model model_;
  calibrate::CalibrationTable table_;
  std::vector<plan::ResolvedPlan> parts_;
  search::SearchLayers layers_;
};

// What of an evaluation counts for a search.
search::Measurement ToMeasurement(const evaluate::EvaluationReport& report);

// Returns the file beside `output` in which measurements are kept; "" where nothing says of which
// samples they are.
std::filesystem::path JournalBeside(const std::filesystem::path& output,
                                    const SpaceOptions& options, const char* suffix = ".journal");

// Returns the key of these journals; "" where there are none.
std::string KeyOf(const SearchSpace& space, const SpaceOptions& options);

// Removes a journal, if it is there.
void RemoveJournal(const std::filesystem::path& journal);

// Writes indented JSON, and puts the file in place. Throws Error(kIo).
void WriteJson(AtomicFile& file, const nlohmann::ordered_json& json);

}  // namespace bitpress::tasks
