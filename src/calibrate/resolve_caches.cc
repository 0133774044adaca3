#include "calibrate/resolve_caches.h"

#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "calibrate/expected_error.h"
#include "calibrate/range_methods.h"
#include "calibrate/resolve_params.h"
#include "formats/qparams_search.h"

namespace bitpress::calibrate {
namespace {

using plan::CachePlan;

formats::IntegerSpec SpecOf(const CachePlan& cache) {
  return {.element_type = formats::FindFormat(cache.format).element_type, .is_symmetric = true};
}

// Returns the scale of one head's channel. A channel that is always zero has the scale 1.
float ScaleOf(const SliceStatistics& slice, const CachePlan& cache) {
  const formats::IntegerSpec spec = SpecOf(cache);
  const float largest = slice.AbsMax();
  if (slice.num_finite == 0 || largest == 0) return 1;
  if (cache.range.kind == plan::RangeMethod::Kind::kMinMax) {
    return formats::QParamsForRange(-largest, largest, spec).scale;
  }
  const ErrorEstimator estimator(slice);
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  const auto error = [&](const formats::QParams& params) {
    return estimator.MeanSquared(params, codes);
  };
  return formats::LeastErrorQParams(-largest, largest, spec, error).scale;
}

std::vector<float> ScalesOf(const TensorStatistics& statistics, const CachePlan& cache) {
  if (cache.granularity == plan::Granularity::kPerTensor) {
    return {ChooseQParams(statistics, cache.range, SpecOf(cache)).scale};
  }
  const std::optional<AxisStatistics>& slices = statistics.axis_statistics();
  if (!slices || !slices->outer_axis || slices->slices.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "the calibration does not tell the heads and channels of the cache '{}' apart; calibrate "
         "with the same configuration, or without any",
         cache.value);
  }
  std::vector<float> scales;
  for (const SliceStatistics& slice : slices->slices) scales.push_back(ScaleOf(slice, cache));
  return scales;
}

}  // namespace

std::set<std::string> CachesToCalibrate(const plan::QuantPlan& plan) {
  std::set<std::string> values;
  for (const CachePlan& cache : plan.caches) {
    if (cache.is_quantized() && cache.scales.empty()) values.insert(cache.value);
  }
  return values;
}

void ResolveCaches(plan::QuantPlan& plan, const CalibrationTable& table) {
  for (CachePlan& cache : plan.caches) {
    if (!cache.is_quantized() || !cache.scales.empty()) continue;
    const TensorStatistics& statistics = StatisticsOf(table, cache.value);
    const std::optional<std::string> why = WhyNoRange(statistics);
    if (!why) {
      cache.scales = ScalesOf(statistics, cache);
      continue;
    }
    for (CachePlan& other : plan.caches) {
      if (other.node != cache.node || !other.is_quantized()) continue;
      other.format = "none";
      other.scales.clear();
      other.reason = other.value == cache.value ? *why : fmt::format("'{}': {}", cache.value, *why);
    }
  }
}

}  // namespace bitpress::calibrate
