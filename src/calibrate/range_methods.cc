#include "calibrate/range_methods.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "calibrate/entropy_range.h"
#include "formats/qparams_search.h"
#include "formats/reference.h"

namespace bitpress::calibrate {
namespace {

using formats::IntegerSpec;
using formats::QParams;
using plan::RangeMethod;
using Kind = RangeMethod::Kind;

// The number that ONNX Runtime and Quark take for percentiles. Their default for entropy, 128 bins
// for 128 quantized ones, leaves no choice.
constexpr size_t kEntropyBins = 2048;
constexpr size_t kMostQuantizedBins = 128;

// The candidates of Quark's LayerwisePercentile (PercentileCandidates).
constexpr std::array<double, 3> kLayerwisePercentiles = {99.99, 99.999, 99.99999};
// The candidates of our method `auto`.
constexpr std::array<double, 5> kAutoPercentiles = {99.9, 99.99, 99.999, 99.9999, 99.99999};

void CheckUsable(const TensorStatistics& statistics) {
  if (const auto reason = WhyNoRange(statistics)) {
    Fail(ErrorCode::kInvalidArgument, "no range can be chosen: {}", *reason);
  }
}

[[noreturn]] void FailForMethod(const RangeMethod& method, std::string_view what) {
  Fail(ErrorCode::kInvalidArgument, "range method {} {}", plan::RangeMethodName(method), what);
}

// Returns the value up to which `target` elements lie, with values spread evenly within their bin.
// REQUIRES: bins by growing value with ends inside [min, max] after clipping, target <= total.
double ValueAt(const std::vector<Bin>& bins, double target, double total, double min, double max) {
  BITPRESS_DCHECK(std::ranges::is_sorted(bins, {}, &Bin::lower));
  BITPRESS_DCHECK(target <= total);
  // A rounding error must not reach for the next bin: 99.9 % of 1000 elements are 999.
  const double tolerance = total * 1e-12;
  double below = 0;
  for (const Bin& bin : bins) {
    const auto count = static_cast<double>(bin.count);
    if (below + count < target - tolerance) {
      below += count;
      continue;
    }
    const double lower = std::max(bin.lower, min);
    const double upper = std::min(bin.upper, max);
    return lower + (upper - lower) * std::clamp((target - below) / count, 0.0, 1.0);
  }
  return max;
}

Range PercentileRange(const TensorStatistics& statistics, double percentile, bool is_symmetric) {
  const double min = statistics.min();
  const double max = statistics.max();
  const auto total = static_cast<double>(statistics.num_finite());
  if (is_symmetric) {
    const double amax = ValueAt(statistics.MagnitudeBins(), percentile / 100 * total, total, 0,
                                statistics.AbsMax());
    // The range stays inside [min, max] even if all values are on one side beyond the cut.
    return {std::clamp(-amax, min, max), std::clamp(amax, min, max)};
  }
  // Both ends follow the same rule: the lower one is the upper one of the mirrored values.
  const double target = (1 - (100 - percentile) / 200) * total;
  const std::vector<Bin> bins = statistics.Bins();
  std::vector<Bin> mirrored(bins.rbegin(), bins.rend());
  for (Bin& bin : mirrored) bin = {-bin.upper, -bin.lower, bin.count};
  return {-ValueAt(mirrored, target, total, -max, -min), ValueAt(bins, target, total, min, max)};
}

Range EntropyRange(const TensorStatistics& statistics, const IntegerSpec& spec) {
  const formats::CodeRange codes = formats::UsedCodes(spec);
  // Types with fewer than 128 codes take their own number of codes.
  const auto num_codes = static_cast<uint64_t>(codes.quant_max - codes.quant_min) + 1;
  const size_t num_quantized_bins =
      std::min<uint64_t>(kMostQuantizedBins, num_codes + num_codes % 2);
  const UniformHistogram histogram = ToUniform(statistics, kEntropyBins);
  const BinRange best = LeastDivergence(histogram, num_quantized_bins);
  const double min = statistics.min();
  const double max = statistics.max();
  return {std::clamp(histogram.Edge(best.first), min, max),
          std::clamp(histogram.Edge(best.last), min, max)};
}

QParams LeastMse(const TensorStatistics& statistics, const ErrorEstimator& estimator,
                 const IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  return formats::LeastErrorQParams(
      statistics.min(), statistics.max(), spec,
      [&](const QParams& params) { return estimator.MeanSquared(params, codes); });
}

QParams ForRange(const Range& range, const IntegerSpec& spec) {
  return formats::QParamsForRange(range.min, range.max, spec);
}

QParams LayerwisePercentile(const TensorStatistics& statistics, const ErrorEstimator& estimator,
                            RangeMethod::Error error, const IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  QParams best;
  double least = std::numeric_limits<double>::infinity();
  for (const double percentile : kLayerwisePercentiles) {
    const QParams params =
        ForRange(PercentileRange(statistics, percentile, spec.is_symmetric), spec);
    const double candidate = error == RangeMethod::Error::kMse
                                 ? estimator.MeanSquared(params, codes)
                                 : estimator.MeanAbsolute(params, codes);
    if (!(candidate < least)) continue;
    best = params;
    least = candidate;
  }
  return best;
}

// Returns the candidates of every other method, the plainest first, which wins ties.
std::vector<QParams> AllCandidates(const TensorStatistics& statistics,
                                   const ErrorEstimator& estimator, const IntegerSpec& spec) {
  std::vector<QParams> candidates;
  for (const Kind kind : {Kind::kMinMax, Kind::kMovingAverage, Kind::kEntropy}) {
    candidates.push_back(ChooseQParams(statistics, RangeMethod{.kind = kind}, spec));
  }
  for (const double percentile : kAutoPercentiles) {
    candidates.push_back(
        ForRange(PercentileRange(statistics, percentile, spec.is_symmetric), spec));
  }
  for (const auto error : {RangeMethod::Error::kMae, RangeMethod::Error::kMse}) {
    candidates.push_back(LayerwisePercentile(statistics, estimator, error, spec));
  }
  candidates.push_back(LeastMse(statistics, estimator, spec));
  return candidates;
}

QParams Auto(const TensorStatistics& statistics, const ErrorEstimator& estimator,
             const IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  QParams best;
  double least = std::numeric_limits<double>::infinity();
  for (const QParams& params : AllCandidates(statistics, estimator, spec)) {
    const double error = estimator.MeanSquared(params, codes);
    if (!(error < least)) continue;
    best = params;
    least = error;
  }
  return best;
}

// Returns the deviation of all finite codes, -0 and +0 both, as ONNX Runtime counts them. Their
// mean is 0.
double DeviationOfCodes(formats::ElementType type) {
  double sum_of_squares = 0;
  double count = 0;
  for (uint32_t code = 0; code < 256; ++code) {
    const double value = formats::ref::DecodeFloat(code, type);
    if (!std::isfinite(value)) continue;
    sum_of_squares += value * value;
    ++count;
  }
  return std::sqrt(sum_of_squares / count);
}

}  // namespace

std::optional<std::string> WhyNoRange(const TensorStatistics& statistics) {
  const uint64_t total = statistics.num_elements();
  if (total == 0) return "no value was ever seen";
  const uint64_t num_nan = statistics.num_nan();
  const uint64_t num_infinite =
      statistics.num_positive_infinity() + statistics.num_negative_infinity();
  if (num_nan > 0) return fmt::format("NaN was seen in {} of {} elements", num_nan, total);
  if (num_infinite > 0) {
    return fmt::format("infinity was seen in {} of {} elements", num_infinite, total);
  }
  return std::nullopt;
}

bool IsRangeBased(const RangeMethod& method) {
  return method.kind == Kind::kMinMax || method.kind == Kind::kMovingAverage ||
         method.kind == Kind::kPercentile || method.kind == Kind::kEntropy;
}

Range ChooseRange(const TensorStatistics& statistics, const RangeMethod& method,
                  const IntegerSpec& spec) {
  CheckUsable(statistics);
  switch (method.kind) {
    case Kind::kMinMax:
      break;
    case Kind::kMovingAverage:
      if (statistics.num_samples() == 0) break;
      return {statistics.MeanOfMinima(), statistics.MeanOfMaxima()};
    case Kind::kPercentile:
      return PercentileRange(statistics, method.percentile, spec.is_symmetric);
    case Kind::kEntropy:
      return EntropyRange(statistics, spec);
    default:
      FailForMethod(method, "does not choose a range, but scales by their errors");
  }
  return {statistics.min(), statistics.max()};
}

QParams ChooseQParams(const TensorStatistics& statistics, const RangeMethod& method,
                      const IntegerSpec& spec) {
  CheckUsable(statistics);
  if (IsRangeBased(method)) return ForRange(ChooseRange(statistics, method, spec), spec);
  if (method.kind == Kind::kDistribution) {
    FailForMethod(method,
                  "is for fp8_e4m3 and fp8_e5m2; integers take min_max, percentile, "
                  "entropy, mse or auto");
  }
  const ErrorEstimator estimator(statistics);
  switch (method.kind) {
    case Kind::kMse:
      return LeastMse(statistics, estimator, spec);
    case Kind::kLayerwisePercentile:
      return LayerwisePercentile(statistics, estimator, method.error, spec);
    default:
      return Auto(statistics, estimator, spec);
  }
}

float ChooseFloatScale(const TensorStatistics& statistics, const RangeMethod& method,
                       const formats::FormatSpec& spec) {
  BITPRESS_DCHECK(spec.scaled_maximum > 0);
  CheckUsable(statistics);
  double scale = 1;
  if (method.kind == Kind::kDistribution && spec.element_bits == 8) {
    scale = statistics.StandardDeviation() / DeviationOfCodes(spec.element_type);
  } else if (IsRangeBased(method)) {
    // The default spec is symmetric, and has more codes than entropy asks for.
    const Range range = ChooseRange(statistics, method, IntegerSpec{});
    scale = std::max(std::abs(range.min), std::abs(range.max)) / spec.scaled_maximum;
  } else {
    FailForMethod(method,
                  "gives no scale of this format: fp8, fp16 and bf16 take min_max, moving_average, "
                  "percentile or entropy, fp8 distribution too");
  }
  return scale >= std::numeric_limits<float>::min() ? static_cast<float>(scale) : 1.0f;
}

}  // namespace bitpress::calibrate
