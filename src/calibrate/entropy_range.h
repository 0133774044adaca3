// The range with the least Kullback-Leibler divergence between the values and their quantized
// selves, by ONNX Runtime's definition, which works on bins of equal width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

// Counts in bins of equal width from -threshold to threshold.
struct UniformHistogram {
  double threshold = 0;
  std::vector<int64_t> counts;

  // The lower edge of bin i, or the end of the last one.
  double Edge(size_t i) const;
};

// The distribution in `num_bins` bins up to the largest magnitude. Each of its own bins is spread
// evenly over those it touches, so that whole elements come out: what lies below an edge is rounded
// to a whole number, and the total stays. REQUIRES: !statistics.is_empty(), num_bins > 0.
UniformHistogram ToUniform(const TensorStatistics& statistics, size_t num_bins);

// The edge around zero that ONNX Runtime's HistogramCollector.get_entropy_threshold
// (onnxruntime/quantization/calibrate.py, 1.31) finds: of all [-t, t] made of whole bins, at least
// num_quantized_bins of them, that where the distribution (what is outside counted into its
// outermost bins) is nearest to itself merged into num_quantized_bins, by scipy's entropy of both
// smoothed. The same in double instead of float32, and an infinite divergence where ONNX Runtime
// stops with an assertion (too many empty bins). The first of equals. Ends are bins first..last
// - 1. REQUIRES: an even number of bins, 2 <= num_quantized_bins <= counts.size(), even.
struct BinRange {
  size_t first = 0;
  size_t last = 0;
  bool operator==(const BinRange&) const = default;
};
BinRange LeastDivergence(const UniformHistogram& histogram, size_t num_quantized_bins);

}  // namespace bitpress::calibrate
