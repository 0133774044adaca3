// From the statistics of an activation to its scale and zero point: every plan::RangeMethod as a
// pure function. The definitions, and where they differ from those of ONNX Runtime and AMD Quark,
// are in docs/range_methods.md. Values that share parameters (the inputs of a Concat) are one
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

// What is to be covered by the codes; min <= max. Always within the values that were seen.
struct Range {
  double min = 0;
  double max = 0;
  bool operator==(const Range&) const = default;
};

// Why these statistics give no range, in words that end a sentence "stays float: ...": nothing was
// seen, or NaN or infinities were (how often is said). Nothing if they do.
std::optional<std::string> WhyNoRange(const TensorStatistics& statistics);

// Whether a method gives a range that does not depend on the scales that are allowed: min_max,
// moving_average, percentile, entropy. The others compare errors (mse, layerwise_percentile, auto)
// or look at the deviation (distribution).
bool IsRangeBased(const plan::RangeMethod& method);

// The range that a range-based method chooses. Of `spec` it asks whether the type is symmetric
// (percentile then cuts magnitudes) and how many codes there are (entropy). Throws
// Error(kInvalidArgument) for another method, or if WhyNoRange has a reason.
Range ChooseRange(const TensorStatistics& statistics, const plan::RangeMethod& method,
                  const formats::IntegerSpec& spec);

// Scale and zero point. Range-based methods: QParamsForRange of ChooseRange. The same as min_max
// for values that are all zero. Throws Error(kInvalidArgument) for `distribution`, which is for
// FP8, or if WhyNoRange has a reason.
formats::QParams ChooseQParams(const TensorStatistics& statistics, const plan::RangeMethod& method,
                               const formats::IntegerSpec& spec);

// The scale of a floating-point type (x_hat = decode(encode(x / scale)) * scale, saturating).
// Range-based methods: the magnitude that the method leaves / plan::ScaledMaximum. distribution, of
// fp8 only: the deviation of the values / the deviation of all finite values of the type (ONNX
// Runtime's compute_scale_zp_float8). Scale 1 if that is no normal float32. REQUIRES: spec is
// fp8_e4m3, fp8_e5m2, fp16 or bf16. Throws Error(kInvalidArgument) for mse, layerwise_percentile
// and auto, or if WhyNoRange has a reason.
float ChooseFloatScale(const TensorStatistics& statistics, const plan::RangeMethod& method,
                       const formats::FormatSpec& spec);

}  // namespace bitpress::calibrate
