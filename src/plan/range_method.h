// The range methods: how the range of a tensor, that is its scale and zero point, is chosen from
// its statistics. Settings and plans name them by words. calibrate/range_methods.h computes them.
// Plain data.
#pragma once

#include <string>
#include <string_view>

namespace bitpress::plan {

// A method with its parameter.
struct RangeMethod {
  enum class Kind {
    kMinMax,               // all values that were seen
    kMovingAverage,        // the mean of the samples' minima and of their maxima
    kPercentile,           // the rest when (100 - percentile) % of the values are cut off
    kEntropy,              // the least Kullback-Leibler divergence of values and quantized values
    kMse,                  // the least mean squared error of the quantized values
    kDistribution,         // values normalized by their deviation: for FP8
    kLayerwisePercentile,  // the one of several percentiles with the least error of this tensor
    kAuto,                 // the method with the least expected error for this tensor and format
    kDynamic,              // all values of this inference: computed each time, no calibration
    kDynamicRows,          // kDynamic for each row along the last axis; for the whole tensor if an
                           // operator takes one scale only
  };
  enum class Error { kMae, kMse };

  Kind kind = Kind::kMinMax;
  double percentile = 99.999;  // for kPercentile: in percent, both tails together
  Error error = Error::kMae;   // for kLayerwisePercentile

  // Returns whether ranges are computed at every inference.
  bool is_dynamic() const { return kind == Kind::kDynamic || kind == Kind::kDynamicRows; }
  bool operator==(const RangeMethod&) const = default;
};

// The words of the methods. calibrate/range_methods.cc has a row with the computation of each that
// is not dynamic.
struct RangeMethodWord {
  std::string_view word;
  RangeMethod::Kind kind;
  std::string_view parameter = "";  // for help texts
};
inline constexpr RangeMethodWord kRangeMethods[] = {
    {"min_max", RangeMethod::Kind::kMinMax},
    {"moving_average", RangeMethod::Kind::kMovingAverage},
    {"percentile", RangeMethod::Kind::kPercentile, "[(P)]"},
    {"entropy", RangeMethod::Kind::kEntropy},
    {"mse", RangeMethod::Kind::kMse},
    {"distribution", RangeMethod::Kind::kDistribution},
    {"layerwise_percentile", RangeMethod::Kind::kLayerwisePercentile, "[(mae|mse)]"},
    {"auto", RangeMethod::Kind::kAuto},
    {"dynamic", RangeMethod::Kind::kDynamic},
    {"dynamic_rows", RangeMethod::Kind::kDynamicRows},
};

// Reads "min_max", "percentile(99.9)", "layerwise_percentile(mse)" and so on; the parameter may be
// left out. Also reads, in any case, the words of AMD Quark and ONNX Runtime (MinMSE, NonOverflow,
// MinMax, LayerwisePercentile, ...). Throws Error(kInvalidArgument) with the nearest word.
RangeMethod ParseRangeMethod(std::string_view word);
// Returns the spelling that ParseRangeMethod reads back as the same.
std::string RangeMethodName(const RangeMethod& method);
// Returns "min_max|moving_average|percentile(P)|...", for help texts.
std::string RangeMethodWords();

}  // namespace bitpress::plan
