// The choice of scale and zero point for weights, from all elements that share them (a tensor, a
// channel, a block). Activations are chosen for from their statistics, in calibration. Elements
// come as one run, so the caller gathers channels along an inner axis. Pure, thread-safe. The
// result does not depend on the instruction set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "formats/qparams.h"

namespace bitpress::kernels {

// Returns why there is no range: "NaN in 3 of 64 elements", "infinity in ..."; nothing if all
// elements are finite. The caller refuses such weights or leaves them float. The functions below
// leave out NaN and infinities.
std::optional<std::string> WhyNoRange(std::span<const float> values);

// Returns the parameters with which the codes cover all elements. Scale is 1 if there are no
// elements or only zeros (formats::QParamsForRange).
formats::QParams MinMaxQParams(std::span<const float> values, const formats::IntegerSpec& spec);

// Returns the parameters with which (100 - percentile) % of the elements may be cut off: the
// largest magnitudes if the type is symmetric, otherwise half of that at each end. An end is the
// element of rank ceil(p n), counted from the middle outwards (the inverse of the empirical
// distribution function, no interpolation). REQUIRES: 50 < percentile <= 100.
formats::QParams PercentileQParams(std::span<const float> values, double percentile,
                                   const formats::IntegerSpec& spec);

// Returns the parameters with the least sum of (x - x_hat)^2 that formats::LeastErrorQParams finds;
// the sum is never more than that of MinMaxQParams. Sums are float32 in runs of 1024 elements.
// 32-bit types get the parameters of MinMaxQParams, since float32 elements have no more bits.
// `pool` shares the work of many elements; null: the calling thread alone. The result is the same.
// REQUIRES: no loop of the pool is running.
formats::QParams MseQParams(std::span<const float> values, const formats::IntegerSpec& spec,
                            ThreadPool* pool = nullptr);

// Returns the parameters with the least expected squared error of a product with the elements that
// formats::LeastErrorQParams finds, for inputs of which nothing is known. Inputs of networks have a
// mean, such as behind a Relu, and resemble the weights that learned from them. So the error counts
// (n + 2) / 2 times as much along both directions as across: with e = x - x_hat, the sum of e^2,
// plus half of the square of the sum of e, plus n / 2 times the square of the sum of e x / |x|.
// MseQParams alone shrinks all products by what it cuts off. REQUIRES: a type of at most 16 bits.
formats::QParams ProductQParams(std::span<const float> values, const formats::IntegerSpec& spec);

// The ways of WithSmallestCode: keep the largest element whole, cut it off where that lowers the
// sum of (x - x_hat)^2, or where it lowers the error that ProductQParams looks at.
enum class SmallestCode { kWhole, kForElements, kForProducts };

// Returns parameters that also use the smallest code of a narrow symmetric signed type, such as -8
// of int4, where that lowers the error of `params`: the element of the largest magnitude gets that
// code, with a scale of the other sign if it is positive. For types of at most 4 bits and free
// scales; otherwise returns `params`.
formats::QParams WithSmallestCode(std::span<const float> values, const formats::QParams& params,
                                  const formats::IntegerSpec& spec, SmallestCode use);

// Returns the sum of (x - x_hat)^2 as MseQParams computes it, saturating at formats::SearchedCodes.
// REQUIRES: a type of at most 16 bits.
double SumOfSquaredErrors(std::span<const float> values, const formats::QParams& params,
                          const formats::IntegerSpec& spec);

}  // namespace bitpress::kernels
