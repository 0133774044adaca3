// What a search shall reach, and what it was measured to reach.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "search/costs.h"

namespace bitpress::search {

// A quantized model against the float one.
struct Measurement {
  double sqnr_db = 0;  // +infinity without any error
  double cosine = 1;
  double l2 = 0;  // mean over samples of the norm of the outputs' difference
  // Shares, 0 to 1; where the model gives class scores, and with labels.
  std::optional<double> agreement, top1, reference_top1;
  // By a measure of the caller's own, better the larger it is.
  std::optional<double> metric, reference_metric;
  uint64_t file_bytes = 0;
  bool operator==(const Measurement&) const = default;
};

// The fields above by name; numbers as json_numbers.h has them.
nlohmann::ordered_json ToJson(const Measurement& measurement);
// Reads what ToJson wrote. Throws Error(kInvalidArgument) or a nlohmann exception.
Measurement MeasurementFromJson(const nlohmann::ordered_json& json);

enum class Metric { kSqnr, kCosine, kL2, kAgreement, kTop1, kTop1Drop, kMetric, kMetricDrop };

// "sqnr>=15" (dB), "cosine>=0.99", "l2<=0.5", "agreement>=98", "top1>=80", "top1_drop<=0.5" (in
// percent and percentage points), and of a measure of the caller's own "metric>=0.8",
// "metric_drop<=0.01" (in its unit).
struct Target {
  Metric metric = Metric::kSqnr;
  double bound = 0;

  std::string Text() const;
  // In the unit of `bound`. Throws Error(kInvalidArgument) if it was not measured: no class scores,
  // no labels.
  double ValueOf(const Measurement& measurement) const;
  bool IsReached(const Measurement& measurement) const;
  // Whether the first is nearer to it.
  bool IsBetter(const Measurement& a, const Measurement& b) const;
};
// Throws Error(kInvalidArgument) with what may be written.
Target ParseTarget(std::string_view text);

// "bits<=5.0", "bytes<=3MB", "mac_bits<=40", "time<=1.3".
struct Budget {
  CostKind kind = CostKind::kBits;
  double bound = 0;

  std::string Text() const;
};
// Throws Error(kInvalidArgument) with what may be written.
Budget ParseBudget(std::string_view text);

}  // namespace bitpress::search
