// Scale and zero point of weights: of the elements that share them (a tensor, a channel, a block),
// which all are there, unlike those of activations (calibrate/range_methods.h chooses by their
// statistics). Elements come as one run; channels along an inner axis are gathered by the caller.
// Pure, thread-safe; the result does not depend on the instruction set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "formats/qparams.h"

namespace bitpress::kernels {

// "NaN in 3 of 64 elements", "infinity in ..."; nothing if all are finite. Such weights are for the
// caller to refuse or to leave float: the functions below leave out NaN and infinities.
std::optional<std::string> WhyNoRange(std::span<const float> values);

// The codes cover all elements. No elements, or only zeros: scale 1 (formats::QParamsForRange).
formats::QParams MinMaxQParams(std::span<const float> values, const formats::IntegerSpec& spec);

// (100 - percentile) % of the elements may be cut off: the largest magnitudes if the type is
// symmetric, otherwise half of that at each end. An end is the element of rank ceil(p n), counted
// from the middle outwards (the inverse of the empirical distribution function, no interpolation).
// REQUIRES: 50 < percentile <= 100.
formats::QParams PercentileQParams(std::span<const float> values, double percentile,
                                   const formats::IntegerSpec& spec);

// The least sum of (x - x_hat)^2 that formats::LeastErrorQParams finds; never more than that of
// MinMaxQParams. Sums are float32 in runs of 1024 elements. 32-bit types: the same as min_max,
// since float32 elements have no more bits than that.
formats::QParams MseQParams(std::span<const float> values, const formats::IntegerSpec& spec);

// The sum of (x - x_hat)^2 as MseQParams computes it (saturating at formats::SearchedCodes).
// REQUIRES: a type of at most 16 bits.
double SumOfSquaredErrors(std::span<const float> values, const formats::QParams& params,
                          const formats::IntegerSpec& spec);

}  // namespace bitpress::kernels
