// The goals of a search, and the measurements that are compared with them. Plain data; all
// functions are pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/fields.h"
#include "search/costs.h"

namespace bitpress::search {

// The measured quality of a quantized model beside the float one.
struct Measurement {
  double sqnr_db = 0;
  double cosine = 1;
  double l2 = 0;
  std::optional<double> agreement, top1, reference_top1;
  std::optional<double> divergence;
  std::optional<double> task_loss;
  std::optional<double> loss;  // by the measure that suits the outputs, see MeasuredLoss
  std::string loss_measure;
  std::optional<double> metric, reference_metric;
  uint64_t file_bytes = 0;
  bool operator==(const Measurement&) const = default;
};
constexpr auto FieldsOf(const Measurement*) {
  return std::tuple(
      Field{"sqnr_db", &Measurement::sqnr_db, "Infinite without any error."},
      Field{"cosine", &Measurement::cosine},
      Field{"l2", &Measurement::l2, "Norm of the outputs' difference, the mean over samples."},
      Field{"agreement", &Measurement::agreement,
            "Share, 0 to 1. None unless the model gives class scores or predicts tokens."},
      Field{"divergence", &Measurement::divergence,
            "Mean Kullback-Leibler divergence of the next token's distribution in nats. None "
            "unless the samples are tokens."},
      Field{"top1", &Measurement::top1, "Share, 0 to 1. None without labels."},
      Field{"reference_top1", &Measurement::reference_top1},
      Field{"task_loss", &Measurement::task_loss,
            "Loss in the terms of the task, as a share. None if the outputs are of no task."},
      Field{"loss", &Measurement::loss,
            "Loss as `auto` has it, a share: by the first of perplexity, top-1, task, expected "
            "top-1, agreement and noise that is known; of several outputs that of the worst."},
      Field{"loss_measure", &Measurement::loss_measure, "The measure of that loss."},
      Field{"metric", &Measurement::metric,
            "A measure of the caller's own. The larger it is, the better."},
      Field{"reference_metric", &Measurement::reference_metric},
      Field{"file_bytes", &Measurement::file_bytes, "0: not written."});
}

// The measure that a target is about.
enum class Metric {
  kSqnr,
  kCosine,
  kL2,
  kAgreement,
  kDivergence,
  kTop1,
  kTop1Drop,
  kTaskLoss,
  kLoss,
  kMetric,
  kMetricDrop
};

// A bound that a quantized model shall keep: "sqnr>=15" (dB), "cosine>=0.99", "l2<=0.5",
// "divergence<=0.05" (nats), "agreement>=98" and "top1>=80" (percent), "top1_drop<=0.5" (percentage
// points), "loss<=1" and "task_loss<=1" (percent), "metric>=0.8" and "metric_drop<=0.01" (the unit
// of the caller's own measure).
struct Target {
  Metric metric = Metric::kSqnr;
  double bound = 0;

  // Returns the text that ParseTarget reads.
  std::string Text() const;
  // Returns a measurement in the unit of `bound`. Throws Error(kInvalidArgument) if it was not
  // measured, for want of class scores or labels.
  double ValueOf(const Measurement& measurement) const;
  bool IsReached(const Measurement& measurement) const;
  // Returns whether `a` is better than `b` in this metric.
  bool IsBetter(const Measurement& a, const Measurement& b) const;
};
// Reads a target. Throws Error(kInvalidArgument) with what may be written.
Target ParseTarget(std::string_view text);

// A bound of the cost: "bits<=5.0", "bytes<=3MB", "mac_bits<=40", "time<=1.3".
struct Budget {
  CostKind kind = CostKind::kBits;
  double bound = 0;

  // Returns the text that ParseBudget reads.
  std::string Text() const;
};
// Reads a budget. Throws Error(kInvalidArgument) with what may be written.
Budget ParseBudget(std::string_view text);

// Reads a number of bytes: "3MB", "1.5GB", "20000". Throws Error(kInvalidArgument).
double ParseBytes(std::string_view text);

}  // namespace bitpress::search
