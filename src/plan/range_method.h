// How the range of an activation, that is its scale and zero point, is chosen from its statistics:
// the words of plans and settings. calibrate/range_methods.h computes them. Plain data.
#pragma once

#include <string>
#include <string_view>

namespace bitpress::plan {

struct RangeMethod {
  enum class Kind {
    kMinMax,               // everything that was seen
    kMovingAverage,        // the mean of the samples' minima and of their maxima
    kPercentile,           // what is left when (100 - percentile) % of the values are cut off
    kEntropy,              // least Kullback-Leibler divergence between values and quantized values
    kMse,                  // least mean squared error of the quantized values
    kDistribution,         // values normalized by their deviation: for FP8
    kLayerwisePercentile,  // of several percentiles the one with the least error of this tensor
    kAuto,                 // least expected error of all the others, for this tensor and format
    kDynamic,              // what this tensor holds, computed at every inference: no calibration
    kDynamicRows,          // the same for each row along the last axis; as kDynamic where an
                           // operator takes one scale only
  };
  enum class Error { kMae, kMse };

  Kind kind = Kind::kMinMax;
  double percentile = 99.999;  // of kPercentile; in percent, both tails together
  Error error = Error::kMae;   // of kLayerwisePercentile

  bool is_dynamic() const { return kind == Kind::kDynamic || kind == Kind::kDynamicRows; }
  bool operator==(const RangeMethod&) const = default;
};

// "min_max", "percentile(99.9)", "layerwise_percentile(mse)", ...; the parameter may be left out.
// Also understood, in any case: the words of AMD Quark and ONNX Runtime (MinMSE, NonOverflow,
// MinMax, LayerwisePercentile, ...). Throws Error(kInvalidArgument) with the nearest word.
RangeMethod ParseRangeMethod(std::string_view word);
// The spelling that ParseRangeMethod reads back as the same.
std::string RangeMethodName(const RangeMethod& method);
// "min_max|moving_average|percentile(P)|...", for help texts.
std::string RangeMethodWords();

}  // namespace bitpress::plan
