// The expected error of rounding values of a known distribution to the codes of an integer type. It
// is an integral over the histogram, so that one pass over the data serves every scale that is
// tried. An estimator does not change once it is made, so any number of threads may ask it.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/statistics.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::calibrate {

// An estimator of errors for one distribution. It takes values to be spread evenly within a bin.
// The outermost bins end at the least and at the largest value, and zeros are exactly zero. The
// integral over that distribution is exact: for bins narrower and wider than a step, and for values
// that saturate at the ends of the type. A bin is 1/256 of its values wide, so that the result is
// the error of the samples but for their places within bins.
class ErrorEstimator {
 public:
  // Takes the distribution of the finite elements. REQUIRES: !statistics.is_empty().
  explicit ErrorEstimator(const TensorStatistics& statistics);
  // Takes the magnitudes of a slice, so that errors are those of symmetric codes. REQUIRES: it has
  // elements and a histogram.
  explicit ErrorEstimator(const SliceStatistics& slice);

  // Return the mean of (x - x_hat)^2 and of |x - x_hat| over the elements, if codes saturate at the
  // ends of `codes`. REQUIRES: scale is positive and finite, the zero point is one of the codes.
  double MeanSquared(const formats::QParams& params, const formats::CodeRange& codes) const;
  double MeanAbsolute(const formats::QParams& params, const formats::CodeRange& codes) const;

 private:
  // The values of one sign by growing magnitude.
  struct Side {
    std::vector<Bin> bins;
    // Entry i is the sum of magnitudes, and of squares, in the bins before bin i.
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

// Returns the mean squared error of quantizing this distribution with QuantizeLinear, which
// saturates at the ends of the element type, not at those of UsedCodes(spec).
double ExpectedError(const TensorStatistics& statistics, const formats::QParams& params,
                     const formats::IntegerSpec& spec);

}  // namespace bitpress::calibrate
