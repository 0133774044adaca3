// Scale and zero point with the least error, whatever the error is of: of the elements themselves
// (kernels/weight_range.h) or expected from statistics (calibrate/range_methods.h).
#pragma once

#include <functional>

#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::formats {

// At which codes the search takes values to saturate: at the ends of the type, where quantizing
// does; of a reduced type at those of UsedCodes, so that clipping does not win the spared bit back.
CodeRange SearchedCodes(const IntegerSpec& spec);

// What quantizing with these parameters costs, >= 0; the smaller the better.
using QParamsError = std::function<double(const QParams&)>;

// The parameters with the least error that a search over ranges inside [range_min, range_max]
// finds; those of the whole range are tried first and win ties.
//
// Float and M / 2^N scales: magnitudes are clipped to the largest one times 2^(-i/8) until the
// error is 2.5 times the least one (rounding errors shrink with the range, so that what saturates
// alone then costs more than the best), then both ends are moved by smaller and smaller steps, in
// asymmetric types separately, as long as the error falls. For M / 2^N ranges up to 2^(1/4) wider
// are tried too. Powers of two: the positions p - 1 to p + 3 around p = round(-log2 scale) of the
// whole range, which are those that AMD Quark's MinMSE tries; asymmetric types also search the zero
// point.
//
// REQUIRES: as QParamsForRange. About 20 calls of `error` for symmetric types, 50 for others, 5 and
// 60 for powers of two.
QParams LeastErrorQParams(double range_min, double range_max, const IntegerSpec& spec,
                          const QParamsError& error);

}  // namespace bitpress::formats
