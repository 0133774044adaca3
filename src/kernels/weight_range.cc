#include "kernels/weight_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "formats/float_bits.h"
#include "formats/qparams_search.h"

namespace bitpress::kernels {
namespace {

// The number of lanes of a sum, whatever the width of the processor's vectors.
constexpr size_t kLanes = 16;
constexpr size_t kRun = 1024;       // elements whose float32 sums go to a double one
constexpr size_t kRunsOfTask = 64;  // runs that a thread computes at a time
constexpr size_t kMostTasks = 64;   // tasks until the sum is looked at
constexpr int64_t kMostCodes = 1 << 16;
using Lanes = std::array<float, kLanes>;

struct Extent {
  float min = 0;  // extremes of finite elements and zero
  float max = 0;
  bool is_finite = true;
};

Extent ExtentOf(std::span<const float> values) {
  Lanes min = {};
  Lanes max = {};
  std::array<uint32_t, kLanes> specials = {};
  const auto add = [&](size_t lane, float x) {
    const uint32_t special = std::abs(x) <= std::numeric_limits<float>::max() ? 0u : 1u;
    const float finite = special != 0 ? 0.0f : x;
    specials[lane] |= special;
    min[lane] = finite < min[lane] ? finite : min[lane];
    max[lane] = finite > max[lane] ? finite : max[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[i + lane]);
  }
  for (; i < values.size(); ++i) add(0, values[i]);
  Extent extent;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    extent.min = std::min(extent.min, min[lane]);
    extent.max = std::max(extent.max, max[lane]);
    extent.is_finite = extent.is_finite && specials[lane] == 0;
  }
  return extent;
}

std::vector<float> FiniteOnly(std::span<const float> values) {
  std::vector<float> finite;
  finite.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite), formats::IsFinite);
  return finite;
}

// A scale for the elements in steps, and the steps at which they saturate.
struct Steps {
  float inverse_scale = 1;
  float least = 0;
  float largest = 0;
};

float SquaredError(float x, const Steps& steps) {
  constexpr float kMagic = 0x1.8p23f;
  const float u = x * steps.inverse_scale;
  const float bounded = std::min(std::max(u, steps.least), steps.largest);
  const float error = u - ((bounded + kMagic) - kMagic);
  return error * error;
}

double SumOfRun(std::span<const float> values, const Steps& steps) {
  Lanes sums = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += SquaredError(values[i + lane], steps);
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane)
    sums[lane] += SquaredError(values[i], steps);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// Returns the sum of squared errors. It does not look at the rest once the sum is above `enough`.
// With a pool, threads compute the runs. They are added up in their order either way, so that the
// sum is the same.
double SumOfErrors(std::span<const float> values, const formats::QParams& params,
                   const formats::CodeRange& codes, double enough, ThreadPool* pool) {
  const Steps steps{1 / params.scale, static_cast<float>(codes.quant_min - params.zero_point),
                    static_cast<float>(codes.quant_max - params.zero_point)};
  const double unit = static_cast<double>(params.scale) * params.scale;
  const size_t num_runs = (values.size() + kRun - 1) / kRun;
  const auto sum_of_run = [&](size_t run) {
    const size_t begin = run * kRun;
    return SumOfRun(values.subspan(begin, std::min(kRun, values.size() - begin)), steps);
  };
  double sum = 0;
  if (pool == nullptr || num_runs <= kRunsOfTask) {
    for (size_t run = 0; run < num_runs && sum * unit <= enough; ++run) sum += sum_of_run(run);
    return sum * unit;
  }
  std::vector<double> sums(std::min(num_runs, kRunsOfTask * kMostTasks));
  for (size_t first = 0; first < num_runs && sum * unit <= enough; first += sums.size()) {
    const size_t count = std::min(sums.size(), num_runs - first);
    pool->ParallelFor((count + kRunsOfTask - 1) / kRunsOfTask, [&](size_t task) {
      const size_t end = std::min(count, (task + 1) * kRunsOfTask);
      for (size_t i = task * kRunsOfTask; i < end; ++i) sums[i] = sum_of_run(first + i);
    });
    for (size_t i = 0; i < count && sum * unit <= enough; ++i) sum += sums[i];
  }
  return sum * unit;
}

// The sums that the expected error of a product follows from, of errors in steps.
struct ErrorSums {
  double squares = 0;
  double errors = 0;
  double along = 0;  // errors times elements
};

ErrorSums SumsOfErrors(std::span<const float> values, const Steps& steps) {
  constexpr float kMagic = 0x1.8p23f;
  ErrorSums sums;
  for (size_t begin = 0; begin < values.size(); begin += kRun) {
    const std::span<const float> run = values.subspan(begin, std::min(kRun, values.size() - begin));
    Lanes squares = {}, errors = {}, along = {};
    const auto add = [&](size_t lane, float x) {
      const float u = x * steps.inverse_scale;
      const float bounded = std::min(std::max(u, steps.least), steps.largest);
      const float error = u - ((bounded + kMagic) - kMagic);
      squares[lane] += error * error;
      errors[lane] += error;
      along[lane] += error * u;
    };
    size_t i = 0;
    for (; i + kLanes <= run.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) add(lane, run[i + lane]);
    }
    for (size_t lane = 0; i < run.size(); ++i, ++lane) add(lane, run[i]);
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) {
        squares[lane] += squares[lane + half];
        errors[lane] += errors[lane + half];
        along[lane] += along[lane + half];
      }
    }
    sums.squares += squares[0];
    sums.errors += errors[0];
    sums.along += along[0];
  }
  return sums;
}

double EnergyOf(std::span<const float> values) {
  double energy = 0;
  for (const float x : values) energy += double{x} * x;
  return energy;
}

// Returns the expected squared error of a product with such inputs as ProductQParams expects.
// `energy` is EnergyOf the elements.
double ErrorOfProduct(std::span<const float> values, double energy, const formats::QParams& params,
                      const formats::CodeRange& codes) {
  const Steps steps{1 / params.scale, static_cast<float>(codes.quant_min - params.zero_point),
                    static_cast<float>(codes.quant_max - params.zero_point)};
  const ErrorSums sums = SumsOfErrors(values, steps);
  const double unit = static_cast<double>(params.scale) * params.scale;
  const auto count = static_cast<double>(values.size());
  const double along = energy > 0 ? unit * sums.along * sums.along / energy : 0;
  return unit * (sums.squares + sums.errors * sums.errors / 2 + count / 2 * along);
}

// Returns the element of rank ceil(part * n), counted from 1. Moves elements.
float AtRank(std::vector<float>& values, double part) {
  const auto count = static_cast<double>(values.size());
  // A rounding error must not give the next element: 99.9 % of 1000 are 999.
  const double rank = std::ceil(part * count - count * 1e-12);
  const auto index = static_cast<ptrdiff_t>(std::clamp(rank, 1.0, count)) - 1;
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<size_t>(index)];
}

}  // namespace

std::optional<std::string> WhyNoRange(std::span<const float> values) {
  if (ExtentOf(values).is_finite) return std::nullopt;
  const auto num_nan = std::count_if(values.begin(), values.end(), formats::IsNan);
  const auto num_finite = std::count_if(values.begin(), values.end(), formats::IsFinite);
  const auto num_infinite = static_cast<ptrdiff_t>(values.size()) - num_finite - num_nan;
  return fmt::format("{} in {} of {} elements", num_nan > 0 ? "NaN" : "infinity",
                     num_nan > 0 ? num_nan : num_infinite, values.size());
}

formats::QParams MinMaxQParams(std::span<const float> values, const formats::IntegerSpec& spec) {
  const Extent extent = ExtentOf(values);
  return formats::QParamsForRange(extent.min, extent.max, spec);
}

formats::QParams PercentileQParams(std::span<const float> values, double percentile,
                                   const formats::IntegerSpec& spec) {
  BITPRESS_DCHECK(percentile > 50 && percentile <= 100);
  std::vector<float> finite = FiniteOnly(values);
  if (finite.empty()) return formats::QParamsForRange(0, 0, spec);
  if (spec.is_symmetric) {
    for (float& x : finite) x = std::abs(x);
    const float amax = AtRank(finite, percentile / 100);
    return formats::QParamsForRange(-amax, amax, spec);
  }
  const double part = 1 - (100 - percentile) / 200;
  const float max = AtRank(finite, part);
  for (float& x : finite) x = -x;
  const float min = -AtRank(finite, part);
  return formats::QParamsForRange(std::min(min, 0.0f), std::max(max, 0.0f), spec);
}

formats::QParams MseQParams(std::span<const float> values, const formats::IntegerSpec& spec,
                            ThreadPool* pool) {
  const Extent extent = ExtentOf(values);
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  if (codes.quant_max - codes.quant_min >= kMostCodes)
    return formats::QParamsForRange(extent.min, extent.max, spec);
  std::vector<float> finite;
  if (!extent.is_finite) {
    finite = FiniteOnly(values);
    values = finite;
  }
  double least = std::numeric_limits<double>::infinity();
  return formats::LeastErrorQParams(
      extent.min, extent.max, spec, [&](const formats::QParams& params) {
        // The search stops at 2.5 times the least error, so errors up to three times are exact.
        const double error = SumOfErrors(values, params, codes, 3 * least, pool);
        least = std::min(least, error);
        return error;
      });
}

formats::QParams ProductQParams(std::span<const float> values, const formats::IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  BITPRESS_DCHECK(codes.quant_max - codes.quant_min < kMostCodes);
  const Extent extent = ExtentOf(values);
  std::vector<float> finite;
  if (!extent.is_finite) {
    finite = FiniteOnly(values);
    values = finite;
  }
  const double energy = EnergyOf(values);
  return formats::LeastErrorQParams(extent.min, extent.max, spec,
                                    [&](const formats::QParams& params) {
                                      return ErrorOfProduct(values, energy, params, codes);
                                    });
}

formats::QParams WithSmallestCode(std::span<const float> values, const formats::QParams& params,
                                  const formats::IntegerSpec& spec, SmallestCode use) {
  constexpr int64_t kLeastCode = -8;
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  const bool is_narrow = codes.quant_min < 0 && codes.quant_min >= kLeastCode;
  const bool is_free = spec.scale_kind == formats::ScaleKind::kFloat && !spec.is_reduced;
  const Extent extent = ExtentOf(values);
  if (!is_narrow || !is_free || !spec.is_symmetric || !extent.is_finite) return params;
  const float largest = extent.max > -extent.min ? extent.max : extent.min;
  formats::QParams best = params;
  const double energy = use == SmallestCode::kForProducts ? EnergyOf(values) : 0;
  const auto error_of = [&](const formats::QParams& candidate) {
    return use == SmallestCode::kForProducts ? ErrorOfProduct(values, energy, candidate, codes)
                                             : SumOfSquaredErrors(values, candidate, spec);
  };
  double least = error_of(params);
  constexpr double kFactors[] = {1, 0.95, 0.9, 0.85, 0.8};
  const size_t num_factors = use == SmallestCode::kWhole ? 1 : std::size(kFactors);
  for (const double factor : std::span(kFactors).first(num_factors)) {
    const formats::QParams wider{
        static_cast<float>(factor * largest / static_cast<double>(codes.quant_min)), 0};
    if (!std::isnormal(wider.scale)) continue;
    const double error = error_of(wider);
    if (error >= least) continue;
    least = error;
    best = wider;
  }
  return best;
}

double SumOfSquaredErrors(std::span<const float> values, const formats::QParams& params,
                          const formats::IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  BITPRESS_DCHECK(codes.quant_max - codes.quant_min < kMostCodes);
  return SumOfErrors(values, params, codes, std::numeric_limits<double>::infinity(), nullptr);
}

}  // namespace bitpress::kernels
