// The histograms of a report: distributions in few bins, for people. Pure.
#pragma once

#include <span>

#include "calibrate/statistics.h"
#include "report/report.h"

namespace bitpress::report {

// The number of bins.
inline constexpr size_t kNumBins = 64;

// Returns the histogram of the finite elements. Those beyond the edges are in the outermost bins.
Histogram CountInto(std::span<const double> values, double lower, double upper);

// Fill in the elements, extremes, mean, deviation and histogram of `tensor`. They stay 0 if no
// element is finite.
void Describe(const calibrate::TensorStatistics& statistics, TensorReport& tensor);
void Describe(std::span<const double> values, TensorReport& tensor);

}  // namespace bitpress::report
