// The choice of an activation's scale and zero point from its statistics: every plan::RangeMethod
// as a pure function. docs/range_methods.md has the definitions, and their differences from those
// of ONNX Runtime and AMD Quark. Values that share parameters (the inputs of a Concat) are one
// distribution: merge their statistics first (TensorStatistics::Merge). Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "calibrate/expected_error.h"
#include "calibrate/statistics.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"
#include "plan/quant_plan.h"
#include "plan/range_method.h"

namespace bitpress::calibrate {

// The range that the codes cover; min <= max. It lies within the values that were seen.
struct Range {
  double min = 0;
  double max = 0;
  bool operator==(const Range&) const = default;
};

// Returns why these statistics give no range, in words that end a sentence "stays float: ...":
// nothing was seen, or so many NaN or infinities were. Returns nothing if they give one.
std::optional<std::string> WhyNoRange(const TensorStatistics& statistics);

// Returns whether a method gives a range that does not depend on the allowed scales: min_max,
// moving_average, percentile, entropy. The others compare errors (mse, layerwise_percentile, auto)
// or look at the deviation (distribution).
bool IsRangeBased(const plan::RangeMethod& method);

// Returns the range that a range-based method chooses. Percentile reads in `spec` whether the type
// is symmetric, for which it cuts magnitudes. Entropy reads the number of codes. Throws
// Error(kInvalidArgument) for another method, or if WhyNoRange has a reason.
Range ChooseRange(const TensorStatistics& statistics, const plan::RangeMethod& method,
                  const formats::IntegerSpec& spec);

// Returns scale and zero point. Range-based methods give QParamsForRange of ChooseRange. For values
// that are all zero every method gives the result of min_max. Throws Error(kInvalidArgument) for
// `distribution`, which is for FP8, or if WhyNoRange has a reason.
formats::QParams ChooseQParams(const TensorStatistics& statistics, const plan::RangeMethod& method,
                               const formats::IntegerSpec& spec);

// Returns the scale of a floating-point type (x_hat = decode(encode(x / scale)) * scale,
// saturating). Range-based methods divide the magnitude that the method leaves by
// scaled_maximum. `distribution`, for fp8 only, divides the deviation of the values by that of
// all finite values of the type (ONNX Runtime's compute_scale_zp_float8). The scale is 1 if the
// result is no normal float32. Throws Error(kInvalidArgument) for mse, layerwise_percentile and
// auto, or if WhyNoRange has a reason. REQUIRES: spec is fp8_e4m3, fp8_e5m2, fp16 or bf16.
float ChooseFloatScale(const TensorStatistics& statistics, const plan::RangeMethod& method,
                       const formats::FormatSpec& spec);

}  // namespace bitpress::calibrate
