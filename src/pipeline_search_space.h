// What sensitivity and search share: the model, what may become of it, and the statistics for that.
// Only for the files of this name.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "data/source.h"
#include "graph/model.h"
#include "pipeline_search.h"
#include "search/sensitivity.h"
#include "transform/qparams_table.h"

namespace bitpress::pipeline {

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
  const std::vector<search::PlannedPart>& parts() const { return parts_; }

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
  std::unique_ptr<data::Source> OpenSamples(size_t limit) const;

  const SpaceOptions& options_;
  search::Space space_;
  graph::Model model_;
  calibrate::CalibrationTable table_;
  std::vector<search::PlannedPart> parts_;
  search::SearchLayers layers_;
};

// What of an evaluation counts for a search.
search::Measurement ToMeasurement(const evaluate::EvaluationReport& report);

}  // namespace bitpress::pipeline
