#include "calibrate/expected_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "formats/float_bits.h"

namespace bitpress::calibrate {
namespace {

// Returns the nearest whole number, ties to even. REQUIRES: |x| < 2^51.
double Round(double x) {
  BITPRESS_DCHECK(std::fabs(x) < 0x1p51);
  constexpr double kMagic = 0x1.8p52;
  return (x + kMagic) - kMagic;
}

// The powers of errors, which are measured in steps. `Between` is the mean of |r|^power for r
// spread evenly from `a` to `b`, which lie in one cell. `Integral` is the integral for r from `a`
// to the upper end of the cell, 1/2, and kCell the integral over a whole cell.
struct Squared {
  static constexpr double kCell = 1.0 / 12;
  static double Unit(double scale) { return scale * scale; }
  static double Between(double a, double b) { return (a * a + a * b + b * b) / 3; }
  static double Integral(double a) { return (0.125 - a * a * a) / 3; }
};
struct Absolute {
  static constexpr double kCell = 0.25;
  static double Unit(double scale) { return scale; }
  static double Between(double a, double b) {
    if (a * b >= 0) return std::abs(a + b) / 2;
    return (a * a + b * b) / (2 * (b - a));
  }
  static double Integral(double a) { return (a < 0 ? 0.25 + a * a : 0.25 - a * a) / 2; }
};

// Returns the mean of |x - round(x)|^power for x spread evenly from `a` to `b`.
template <typename Power>
double RoundingError(double a, double b) {
  const double first = Round(a);
  const double last = Round(b);
  if (first == last) return Power::Between(a - first, b - last);
  // The parts are the rest of the first cell, whole cells, and, mirrored, the beginning of the
  // last.
  return (Power::Integral(a - first) + (last - first - 1) * Power::kCell +
          Power::Integral(last - b)) /
         (b - a);
}

// Returns the mean over [lower, upper] in steps, if codes end at `limit`.
template <typename Power>
double ErrorBetween(double lower, double upper, double limit) {
  if (upper <= limit) return RoundingError<Power>(lower, upper);
  if (lower >= limit) return Power::Between(lower - limit, upper - limit);
  const double inside = (limit - lower) / (upper - lower);
  return inside * RoundingError<Power>(lower, limit) +
         (1 - inside) * Power::Between(0, upper - limit);
}

}  // namespace

void ErrorEstimator::Side::Add(const Bin& bin) {
  const auto count = static_cast<double>(bin.count);
  bins.push_back(bin);
  sums.push_back(sums.back() + count * bin.center());
  sums_of_squares.push_back(sums_of_squares.back() +
                            count * Squared::Between(bin.lower, bin.upper));
}

ErrorEstimator::ErrorEstimator(const TensorStatistics& statistics)
    : num_elements_(static_cast<double>(statistics.num_finite())) {
  BITPRESS_DCHECK(!statistics.is_empty());
  std::vector<Bin> bins = statistics.Bins();
  const double min = statistics.min();
  const double max = statistics.max();
  for (Bin& bin : bins) {
    bin.lower = std::max(bin.lower, min);
    bin.upper = std::min(bin.upper, max);
    if (bin.upper > 0) positive_.Add(bin);
  }
  for (size_t i = bins.size(); i-- > 0;) {
    if (bins[i].lower < 0) negative_.Add({-bins[i].upper, -bins[i].lower, bins[i].count});
  }
}

ErrorEstimator::ErrorEstimator(const SliceStatistics& slice)
    : num_elements_(static_cast<double>(slice.num_finite)) {
  BITPRESS_DCHECK(slice.num_finite > 0 && slice.magnitudes.size() == kSliceBins);
  const double largest = slice.AbsMax();
  for (size_t i = 0; i < kSliceBins; ++i) {
    const bool is_last = i + 1 == kSliceBins;
    const double upper = is_last ? largest : std::min(LowerEdgeOf(i + 1), largest);
    if (slice.magnitudes[i] > 0) positive_.Add({LowerEdgeOf(i), upper, slice.magnitudes[i]});
  }
}

template <typename Power>
double ErrorEstimator::Mean(const formats::QParams& params, const formats::CodeRange& codes) const {
  BITPRESS_DCHECK(formats::IsPositiveFinite(params.scale));
  const double scale = params.scale;
  const auto error_of = [&](const Side& side, int64_t last_code) {
    const auto limit = static_cast<double>(last_code);
    // The sums give the error of all bins that are rounded to zero.
    const auto first = last_code == 0 ? side.bins.end()
                                      : std::partition_point(
                                            side.bins.begin(), side.bins.end(),
                                            [&](const Bin& bin) { return bin.upper <= scale / 2; });
    const auto index = static_cast<size_t>(first - side.bins.begin());
    double error = 0;
    for (auto bin = first; bin != side.bins.end(); ++bin) {
      error += static_cast<double>(bin->count) *
               ErrorBetween<Power>(bin->lower / scale, bin->upper / scale, limit);
    }
    const std::vector<double>& below =
        std::is_same_v<Power, Squared> ? side.sums_of_squares : side.sums;
    return error * Power::Unit(scale) + below[index];
  };
  return (error_of(positive_, codes.quant_max - params.zero_point) +
          error_of(negative_, params.zero_point - codes.quant_min)) /
         num_elements_;
}

double ErrorEstimator::MeanSquared(const formats::QParams& params,
                                   const formats::CodeRange& codes) const {
  return Mean<Squared>(params, codes);
}

double ErrorEstimator::MeanAbsolute(const formats::QParams& params,
                                    const formats::CodeRange& codes) const {
  return Mean<Absolute>(params, codes);
}

double ExpectedError(const TensorStatistics& statistics, const formats::QParams& params,
                     const formats::IntegerSpec& spec) {
  return ErrorEstimator(statistics).MeanSquared(params, formats::IntegerRange(spec.element_type));
}

}  // namespace bitpress::calibrate
