// How much is lost when values of a known distribution are rounded to the codes of an integer type:
// an integral over the histogram, so that one pass over the data serves every scale that is tried.
// Immutable once made: any number of threads may ask it.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/statistics.h"
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

  // The mean of (x - x_hat)^2 and of |x - x_hat| over the elements. Codes are those of the whole
  // element type, used by QuantizeLinear, not only UsedCodes(spec). REQUIRES: scale is positive and
  // finite, the zero point is a code.
  double MeanSquared(const formats::QParams& params, const formats::IntegerSpec& spec) const;
  double MeanAbsolute(const formats::QParams& params, const formats::IntegerSpec& spec) const;

 private:
  // Bins by growing magnitude, all of one sign, and what those below bin i add up to.
  struct Side {
    std::vector<Bin> bins;
    std::vector<double> first_moments;   // of magnitudes
    std::vector<double> second_moments;  // sum of squares
  };
  template <int kPower>
  double Mean(const formats::QParams& params, const formats::IntegerSpec& spec) const;

  Side positive_;
  Side negative_;
  double num_zeros_ = 0;
  double num_elements_ = 0;
};

// ErrorEstimator's MeanSquared, for a single question.
double ExpectedError(const TensorStatistics& statistics, const formats::QParams& params,
                     const formats::IntegerSpec& spec);

}  // namespace bitpress::calibrate
