// The trials of one model: each quantizes it in another way, and measures what came out beside the
// float model. `auto` and `search` use it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "evaluate/evaluate.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "rewrite/prepare.h"
#include "tasks/metric.h"
#include "tasks/quantize.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct SharedWork;

// The samples are for ranges and fine-tuning.
struct TrialOptions : RunOptions {
  std::filesystem::path model;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  bool is_checked = true;                             // as in QuantizeOptions
  Target target = Target::kAutomatic;                 // likewise
  RunOptions validation = {};                         // the samples that are measured
  size_t batch_size = 20;                             // of these
  std::optional<size_t> output_index = std::nullopt;  // as in EvaluateOptions
  std::string task = "auto";                          // likewise
  // The caller's own measure of accuracy. It measures the float model first. May be empty.
  ModelMetric metric = {};
  // What several trials have in common is done once and kept here (shared_work.h). Null: there is
  // one trial, which needs no copies.
  std::shared_ptr<SharedWork> shared = {};
};

class Trials {
 public:
  // Measures the float model by the caller's own measure. Throws Error if that gives no number.
  explicit Trials(TrialOptions options);

  // Returns the float model after its preparation for a configuration. Throws Error.
  graph::Model Prepare(const plan::QuantConfig& config) const;
  // Quantizes the model as Quantize does. Throws Error.
  QuantizeReport Quantize(const std::filesystem::path& output,
                          const std::variant<plan::QuantConfig, plan::QuantPlan>& decisions,
                          bool has_fastest_sums = false) const;
  // Compares a quantized model with the float one. Throws Error.
  evaluate::EvaluationReport Evaluate(const std::filesystem::path& model) const;

  // The caller's own measure of a model and of the float one; nothing if there is no such measure.
  // Throws Error if it gives no number.
  std::optional<double> MeasureOwn(const std::filesystem::path& model) const;
  std::optional<double> reference_metric() const { return reference_metric_; }

  const RunOptions& validation() const { return options_.validation; }
  // Measures on at most so many samples from now on.
  void LimitValidation(size_t limit) { options_.validation.samples.limit = limit; }

 private:
  QuantizeOptions Options() const;

  TrialOptions options_;
  std::optional<double> reference_metric_;
  // The float model runs each sample once for all trials.
  std::shared_ptr<evaluate::ReferenceRuns> reference_runs_ =
      std::make_shared<evaluate::ReferenceRuns>();
};

}  // namespace bitpress::tasks
