// How much is lost when values of a known distribution are rounded to the codes of an integer type:
// an integral over the histogram, so that one pass over the data serves every scale that is tried.
// Immutable once made: any number of threads may ask it.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/statistics.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::calibrate {

// Within a bin the values are taken to be spread evenly (the outermost bins end at the least and at
// the largest value, zeros are exactly zero); the integral over that distribution is exact: bins
// narrower and wider than a step, and what saturates at the ends of the type. A bin is 1/256 of its
// values wide, so that the result is the error of the samples but for how they lie within bins.
class ErrorEstimator {
 public:
  // REQUIRES: !statistics.is_empty(). Only finite elements count.
  explicit ErrorEstimator(const TensorStatistics& statistics);

  // The mean of (x - x_hat)^2 and of |x - x_hat| over the elements, when codes saturate at the ends
  // of `codes`. REQUIRES: scale is positive and finite, the zero point is one of the codes.
  double MeanSquared(const formats::QParams& params, const formats::CodeRange& codes) const;
  double MeanAbsolute(const formats::QParams& params, const formats::CodeRange& codes) const;

 private:
  // The values of one sign by growing magnitude.
  struct Side {
    std::vector<Bin> bins;
    // Entry i: of the bins before i, the sum of magnitudes and of squares.
    std::vector<double> sums = {0};
    std::vector<double> sums_of_squares = {0};

    void Add(const Bin& bin);
  };
  template <typename Power>
  double Mean(const formats::QParams& params, const formats::CodeRange& codes) const;

  Side positive_;
  Side negative_;
  double num_elements_ = 0;
};

// The mean squared error of quantizing this distribution with QuantizeLinear, which saturates at
// the ends of the element type, not at those of UsedCodes(spec).
double ExpectedError(const TensorStatistics& statistics, const formats::QParams& params,
                     const formats::IntegerSpec& spec);

}  // namespace bitpress::calibrate
