#include "evaluate/measured_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bitpress::evaluate {
namespace {

constexpr std::string_view kNoise = "noise";

// Returns the loss of the worst output, numbers that were lost aside.
std::optional<MeasuredLoss> WorstLossOf(const EvaluationReport& report) {
  std::optional<MeasuredLoss> loss = FirstLossOf(report);
  if (const std::optional<HeadReport> worst = WorstHeadOf(report)) {
    if (!loss) loss = MeasuredLoss{.measure = std::string(kNoise)};
    loss->loss = worst->loss;
  } else if (!loss && report.sqnr_db) {
    loss = MeasuredLoss{std::pow(10, -*report.sqnr_db / 10), std::string(kNoise)};
  }
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

std::optional<HeadReport> WorstHeadOf(const EvaluationReport& report) {
  const auto worst = std::ranges::max_element(report.heads, {}, &HeadReport::loss);
  if (worst == report.heads.end()) return std::nullopt;
  const std::optional<MeasuredLoss> first = FirstLossOf(report);
  return first && worst->loss <= first->loss ? std::nullopt : std::optional(*worst);
}

std::optional<MeasuredLoss> LossOf(const EvaluationReport& report) {
  std::optional<MeasuredLoss> loss = WorstLossOf(report);
  const bool has_lost = report.num_nonfinite_values > 0 && report.sqnr_db &&
                        std::isinf(*report.sqnr_db) && *report.sqnr_db < 0;
  if (loss && has_lost) loss->loss = std::numeric_limits<double>::infinity();
  return loss;
}

}  // namespace bitpress::evaluate
