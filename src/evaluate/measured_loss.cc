#include "evaluate/measured_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bitpress::evaluate {
namespace {

constexpr std::string_view kNoise = "noise";

std::optional<MeasuredLoss> WorstLossOf(const EvaluationReport& report) {
  const std::optional<MeasuredLoss> first = FirstLossOf(report);
  if (!first && !report.sqnr_db) return std::nullopt;
  const auto worst = std::ranges::max_element(report.heads, {}, &HeadReport::loss);
  if (worst == report.heads.end()) {
    return first ? *first : MeasuredLoss{std::pow(10, -*report.sqnr_db / 10), std::string(kNoise)};
  }
  MeasuredLoss loss = first.value_or(MeasuredLoss{.measure = std::string(kNoise)});
  if (first && worst->loss <= first->loss) return loss;
  loss.loss = worst->loss;
  loss.worst_head = *worst;
  return loss;
}

}  // namespace

std::optional<MeasuredLoss> FirstLossOf(const EvaluationReport& report) {
  if (report.language && report.language->reference_perplexity) {
    const double reference = *report.language->reference_perplexity;
    return MeasuredLoss{(report.language->perplexity - reference) / reference, "perplexity"};
  }
  if (report.top1 && report.reference_top1.value_or(0) > 0) {
    return MeasuredLoss{(*report.reference_top1 - *report.top1) / *report.reference_top1, "top-1",
                        "samples", report.num_labelled};
  }
  if (report.task && report.task->loss) {
    return MeasuredLoss{*report.task->loss, report.task->loss_name, report.task->items,
                        report.task->num_items};
  }
  if (report.expected_top1) {
    const double reference = *report.reference_expected_top1;
    return MeasuredLoss{(reference - *report.expected_top1) / reference, "expected top-1",
                        "samples", report.num_samples};
  }
  if (report.agreement) {
    return MeasuredLoss{1 - *report.agreement, "agreement", "samples", report.num_samples};
  }
  return std::nullopt;
}

std::optional<MeasuredLoss> LossOf(const EvaluationReport& report) {
  std::optional<MeasuredLoss> loss = WorstLossOf(report);
  const bool has_lost = report.num_nonfinite_values > 0 && report.sqnr_db &&
                        std::isinf(*report.sqnr_db) && *report.sqnr_db < 0;
  if (loss && has_lost) loss->loss = std::numeric_limits<double>::infinity();
  return loss;
}

}  // namespace bitpress::evaluate
