#include "search/goals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::search {
namespace {

struct MetricWord {
  Metric metric;
  std::string_view name;
  bool is_at_least;
};
constexpr std::array<MetricWord, 11> kMetrics{{{Metric::kSqnr, "sqnr", true},
                                               {Metric::kCosine, "cosine", true},
                                               {Metric::kL2, "l2", false},
                                               {Metric::kAgreement, "agreement", true},
                                               {Metric::kDivergence, "divergence", false},
                                               {Metric::kTop1, "top1", true},
                                               {Metric::kTop1Drop, "top1_drop", false},
                                               {Metric::kTaskLoss, "task_loss", false},
                                               {Metric::kLoss, "loss", false},
                                               {Metric::kMetric, "metric", true},
                                               {Metric::kMetricDrop, "metric_drop", false}}};

const MetricWord& MetricWordOf(Metric metric) {
  return *std::ranges::find(kMetrics, metric, &MetricWord::metric);
}

struct Comparison {
  std::string name;
  bool is_at_least = false;
  std::string bound;
};

Comparison SplitComparison(std::string_view text, std::string_view examples) {
  for (const std::string_view sign : {">=", "<="}) {
    const size_t at = text.find(sign);
    if (at == std::string_view::npos) continue;
    return {std::string(Trim(text.substr(0, at))),
            sign == ">=", std::string(Trim(text.substr(at + sign.size())))};
  }
  Fail(ErrorCode::kInvalidArgument, "'{}' is no bound; write {}", text, examples);
}

enum class Direction { kAtLeast, kAtMost };

void CheckDirection(const Comparison& comparison, Direction direction, std::string_view text) {
  const bool is_at_least = direction == Direction::kAtLeast;
  if (comparison.is_at_least == is_at_least) return;
  Fail(ErrorCode::kInvalidArgument, "'{}': {} is bounded by {}", text, comparison.name,
       is_at_least ? ">=, more of it is better" : "<=, less of it is better");
}

double ParseBound(const std::string& text) {
  const double value = ParseDouble(text, "the bound");
  if (!std::isfinite(value)) Fail(ErrorCode::kInvalidArgument, "'{}' is no bound", text);
  return value;
}

}  // namespace

Target ParseTarget(std::string_view text) {
  constexpr std::string_view kExamples =
      "sqnr>=15, cosine>=0.99, l2<=0.5, agreement>=98, divergence<=0.05, top1>=80, "
      "top1_drop<=0.5, loss<=1 or task_loss<=1";
  const Comparison comparison = SplitComparison(text, kExamples);
  std::vector<std::string> names;
  for (const MetricWord& word : kMetrics) {
    names.emplace_back(word.name);
    if (word.name != comparison.name) continue;
    CheckDirection(comparison, word.is_at_least ? Direction::kAtLeast : Direction::kAtMost, text);
    return {word.metric, ParseBound(comparison.bound)};
  }
  Fail(ErrorCode::kInvalidArgument, "there is no measure '{}'{}; write {}", comparison.name,
       DidYouMean(comparison.name, names), kExamples);
}

std::string Target::Text() const {
  const MetricWord& word = MetricWordOf(metric);
  return fmt::format("{}{}{:g}", word.name, word.is_at_least ? ">=" : "<=", bound);
}

double Target::ValueOf(const Measurement& measurement) const {
  const auto percent = [&](const std::optional<double>& share, std::string_view what) {
    if (!share) {
      Fail(ErrorCode::kInvalidArgument, "target {}: {}", Text(),
           what.empty() ? "the model gives no class scores [samples, classes]" : what);
    }
    return 100 * *share;
  };
  const auto own = [&](const std::optional<double>& value) {
    if (!value) {
      Fail(ErrorCode::kInvalidArgument,
           "target {}: there is no measure of your own; the Python package takes one "
           "(metric=function)",
           Text());
    }
    return *value;
  };
  constexpr std::string_view kNoLabels =
      "there are no labels, or no class scores: give labels, or one folder a class";
  switch (metric) {
    case Metric::kSqnr:
      return measurement.sqnr_db;
    case Metric::kCosine:
      return measurement.cosine;
    case Metric::kL2:
      return measurement.l2;
    case Metric::kAgreement:
      return percent(measurement.agreement, "");
    case Metric::kDivergence:
      if (!measurement.divergence) {
        Fail(ErrorCode::kInvalidArgument,
             "target {}: no tokens are predicted; give texts or tokens, and a model with an output "
             "[samples, tokens, vocabulary]",
             Text());
      }
      return *measurement.divergence;
    case Metric::kTop1:
      return percent(measurement.top1, kNoLabels);
    case Metric::kTop1Drop:
      return percent(measurement.reference_top1, kNoLabels) - percent(measurement.top1, kNoLabels);
    case Metric::kTaskLoss:
      return percent(measurement.task_loss,
                     "the outputs are of no task that is known; name one with task");
    case Metric::kLoss:
      return percent(measurement.loss, "the outputs hold no numbers that could be compared");
    case Metric::kMetric:
      return own(measurement.metric);
    case Metric::kMetricDrop:
      return own(measurement.reference_metric) - own(measurement.metric);
  }
  return 0;
}

bool Target::IsReached(const Measurement& measurement) const {
  constexpr double kRounding = 1e-9;  // error of percentages that are computed
  const double value = ValueOf(measurement);
  return MetricWordOf(metric).is_at_least ? value >= bound - kRounding : value <= bound + kRounding;
}

bool Target::IsBetter(const Measurement& a, const Measurement& b) const {
  return MetricWordOf(metric).is_at_least ? ValueOf(a) > ValueOf(b) : ValueOf(a) < ValueOf(b);
}

Budget ParseBudget(std::string_view text) {
  const Comparison comparison =
      SplitComparison(text, "bits<=5.0, bytes<=3MB, mac_bits<=40 or time<=1.3");
  const CostKind kind = ParseCostKind(comparison.name);
  CheckDirection(comparison, Direction::kAtMost, text);
  const double bound =
      kind == CostKind::kBytes ? ParseBytes(comparison.bound) : ParseBound(comparison.bound);
  if (bound <= 0) Fail(ErrorCode::kInvalidArgument, "'{}': the bound must be above 0", text);
  return {kind, bound};
}

double ParseBytes(std::string_view text) {
  const std::string lower = ToLower(text);
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"b", 1}}};
  for (const auto& [unit, factor] : kUnits) {
    if (!lower.ends_with(unit)) continue;
    return factor * ParseBound(std::string(Trim(lower.substr(0, lower.size() - unit.size()))));
  }
  return ParseBound(lower);
}

std::string Budget::Text() const { return fmt::format("{}<={:g}", CostName(kind), bound); }

}  // namespace bitpress::search
