// The goals of a search, and the measurements that are compared with them. Plain data; all
// functions are pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "search/costs.h"

namespace bitpress::search {

// The measured quality of a quantized model beside the float one.
struct Measurement {
  double sqnr_db = 0;  // +infinity without any error
  double cosine = 1;
  double l2 = 0;  // norm of the outputs' difference, the mean over samples
  // Shares, 0 to 1. `agreement` is known if the model gives class scores or predicts tokens, the
  // others with labels.
  std::optional<double> agreement, top1, reference_top1;
  // Mean Kullback-Leibler divergence of the next token's distribution in nats; known for tokens.
  std::optional<double> divergence;
  // A measure of the caller's own. The larger it is, the better.
  std::optional<double> metric, reference_metric;
  uint64_t file_bytes = 0;
  bool operator==(const Measurement&) const = default;
};

// Returns the fields by name, with numbers as json_numbers.h has them.
nlohmann::ordered_json ToJson(const Measurement& measurement);
// Reads what ToJson wrote. Throws Error(kInvalidArgument) or a nlohmann exception.
Measurement MeasurementFromJson(const nlohmann::ordered_json& json);

// The measure that a target is about.
enum class Metric {
  kSqnr,
  kCosine,
  kL2,
  kAgreement,
  kDivergence,
  kTop1,
  kTop1Drop,
  kMetric,
  kMetricDrop
};

// A bound that a quantized model shall keep: "sqnr>=15" (dB), "cosine>=0.99", "l2<=0.5",
// "divergence<=0.05" (nats), "agreement>=98" and "top1>=80" (percent), "top1_drop<=0.5" (percentage
// points), "metric>=0.8" and "metric_drop<=0.01" (the unit of the caller's own measure).
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

}  // namespace bitpress::search
