#include "tasks/trials.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "tasks/evaluate.h"
#include "tasks/resolve.h"

namespace bitpress::tasks {

Trials::Trials(TrialOptions options) : options_(std::move(options)) {
  reference_metric_ = MeasureOwn(options_.model);
}

QuantizeOptions Trials::Options() const {
  QuantizeOptions quantize;
  static_cast<RunOptions&>(quantize) = options_;
  quantize.model = options_.model;
  quantize.preparation = options_.preparation;
  quantize.target = options_.target;
  quantize.is_checked = options_.is_checked;
  quantize.task = options_.task;
  quantize.shared = options_.shared;
  return quantize;
}

graph::Model Trials::Prepare(const plan::QuantConfig& config) const {
  return PreparedFor(Options(), config);
}

QuantizeReport Trials::Quantize(const std::filesystem::path& output,
                                const std::variant<plan::QuantConfig, plan::QuantPlan>& decisions,
                                bool has_fastest_sums) const {
  QuantizeOptions quantize = Options();
  quantize.has_fastest_sums = has_fastest_sums;
  quantize.output = output;
  if (const auto* config = std::get_if<plan::QuantConfig>(&decisions)) {
    quantize.config = *config;
  } else {
    quantize.plan = std::get<plan::QuantPlan>(decisions);
  }
  return tasks::Quantize(quantize);
}

evaluate::EvaluationReport Trials::Evaluate(const std::filesystem::path& model) const {
  EvaluateOptions evaluate;
  static_cast<RunOptions&>(evaluate) = options_.validation;
  evaluate.model = model;
  evaluate.reference = options_.model;
  evaluate.batch_size = options_.batch_size;
  evaluate.output_index = options_.output_index;
  evaluate.task = options_.task;
  evaluate.reference_runs = reference_runs_;
  return tasks::Evaluate(evaluate);
}

std::optional<double> Trials::MeasureOwn(const std::filesystem::path& model) const {
  if (!options_.metric) return std::nullopt;
  const double value = options_.metric(model);
  if (!std::isfinite(value)) {
    Fail(ErrorCode::kInvalidArgument, "the metric gives {} for '{}', expected a finite number",
         value, PathText(model));
  }
  return value;
}

}  // namespace bitpress::tasks
