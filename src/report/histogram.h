// Distributions in few bins, for people.
#pragma once

#include <span>

#include "calibrate/statistics.h"
#include "report/report.h"

namespace bitpress::report {

inline constexpr size_t kNumBins = 64;

// Of the finite elements; those beyond the edges are in the outermost bins.
Histogram CountInto(std::span<const double> values, double lower, double upper);

// Fills in what is counted: elements, extremes, mean, deviation, histogram. Everything stays 0
// where no element is finite.
void Describe(const calibrate::TensorStatistics& statistics, TensorReport& tensor);
void Describe(std::span<const double> values, TensorReport& tensor);

}  // namespace bitpress::report
