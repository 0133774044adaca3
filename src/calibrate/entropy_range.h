// The range method "entropy": the range with the least Kullback-Leibler divergence between the
// values and the quantized values, by ONNX Runtime's definition, which works on bins of equal
// width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

// The counts in bins of equal width from -threshold to threshold.
struct UniformHistogram {
  double threshold = 0;
  std::vector<int64_t> counts;

  // Returns the lower edge of bin i, or the end of the last one.
  double Edge(size_t i) const;
};

// Returns the distribution in `num_bins` bins up to the largest magnitude. Each bin of the
// statistics is spread evenly over those it touches. The number of elements below an edge is
// rounded to a whole number, and the total stays. REQUIRES: !statistics.is_empty(), num_bins > 0.
UniformHistogram ToUniform(const TensorStatistics& statistics, size_t num_bins);

// A range of bins, first to last - 1.
struct BinRange {
  size_t first = 0;
  size_t last = 0;
  bool operator==(const BinRange&) const = default;
};
// Returns the range around zero that ONNX Runtime's HistogramCollector.get_entropy_threshold
// (onnxruntime/quantization/calibrate.py, 1.31) finds. Candidates are all [-t, t] of at least
// num_quantized_bins whole bins, where the outermost bins count the elements outside too. The
// result is the candidate whose distribution is nearest to itself merged into num_quantized_bins,
// by scipy's entropy of both smoothed; the first of equals. Arithmetic is in double instead of
// float32. The divergence is infinite where ONNX Runtime stops with an assertion (too many empty
// bins). REQUIRES: an even number of bins, 2 <= num_quantized_bins <= counts.size(), even.
BinRange LeastDivergence(const UniformHistogram& histogram, size_t num_quantized_bins);

}  // namespace bitpress::calibrate
