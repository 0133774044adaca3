// A search for the scale and zero point with the least error. The caller defines the error: that of
// the elements themselves (kernels/weight_range.h) or the one expected from statistics
// (calibrate/range_methods.h).
#pragma once

#include <functional>

#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::formats {

// Returns the codes at which the search lets values saturate: the ends of the type, as quantizing
// does. For a reduced type they are those of UsedCodes, so that clipping does not win the spared
// bit back.
CodeRange SearchedCodes(const IntegerSpec& spec);

// A function that returns the cost of quantizing with these parameters, >= 0; the smaller the
// better.
using QParamsError = std::function<double(const QParams&)>;

// Returns the parameters with the least error that a search over ranges inside [range_min,
// range_max] finds. Those of the whole range are tried first and win ties.
//
// Float and M / 2^N scales: the search clips magnitudes to the largest one times 2^(-i/8) until the
// error is 2.5 times the least one. Rounding errors shrink with the range, so that the saturated
// values alone then cost more than the best range. It then moves both ends by smaller and smaller
// steps as long as the error falls, in asymmetric types separately. For M / 2^N it also tries
// ranges up to 2^(1/4) wider. Powers of two: it tries the positions p - 1 to p + 3 around p =
// round(-log2 scale) of the whole range, as AMD Quark's MinMSE does. Asymmetric types also search
// the zero point.
//
// It calls `error` about 20 times for symmetric types and 50 times for others, and 5 and 60 times
// for powers of two. REQUIRES: the ends are finite, range_min <= range_max.
QParams LeastErrorQParams(double range_min, double range_max, const IntegerSpec& spec,
                          const QParamsError& error);

}  // namespace bitpress::formats
