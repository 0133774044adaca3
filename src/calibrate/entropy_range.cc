#include "calibrate/entropy_range.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/check.h"

namespace bitpress::calibrate {
namespace {

constexpr double kSmoothing = 0.0001;  // as in ONNX Runtime's smooth_distribution
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Gives empty bins a little, for which the others pay. Returns whether that was possible.
bool Smooth(std::span<double> distribution) {
  const auto zeros = static_cast<double>(std::count(distribution.begin(), distribution.end(), 0.0));
  const double nonzeros = static_cast<double>(distribution.size()) - zeros;
  if (nonzeros == 0) return false;
  const double payment = kSmoothing * zeros / nonzeros;
  if (payment >= 1) return false;
  for (double& x : distribution) x += x == 0 ? kSmoothing : -payment;
  return true;
}

// Returns sum p log(p / q) of p and q divided by their sums. All of them are positive, unless a
// calibration file contradicts itself; then the result is NaN.
double RelativeEntropy(std::span<const double> p, std::span<const double> q) {
  const double sum_p = std::accumulate(p.begin(), p.end(), 0.0);
  const double sum_q = std::accumulate(q.begin(), q.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] * std::log(p[i] / q[i]);
  return sum / sum_p - std::log(sum_p / sum_q);
}

class Divergence {
 public:
  Divergence(std::span<const int64_t> counts, size_t num_quantized_bins)
      : counts_(counts), num_quantized_bins_(num_quantized_bins) {
    int64_t below = 0;
    below_.push_back(0);
    for (const int64_t count : counts) below_.push_back(below += count);
  }

  double operator()(const BinRange& range) {
    const std::span<const int64_t> slice = counts_.subspan(range.first, range.last - range.first);
    p_.assign(slice.begin(), slice.end());
    p_.front() += static_cast<double>(below_[range.first]);
    p_.back() += static_cast<double>(below_.back() - below_[range.last]);
    MergeAndExpand(range);
    return Smooth(p_) && Smooth(q_) ? RelativeEntropy(p_, q_) : kInfinity;
  }

 private:
  // Makes q from the elements inside: those of each quantized bin are spread over its bins in which
  // p has some. The numbers are whole, as in the original. The bins beyond the last full quantized
  // bin count in its sum, but stay empty.
  void MergeAndExpand(const BinRange& range) {
    const size_t size = range.last - range.first;
    const size_t num_merged = size / num_quantized_bins_;
    q_.assign(size, 0.0);
    for (size_t i = 0; i < num_quantized_bins_; ++i) {
      const size_t begin = i * num_merged;
      const size_t end = begin + num_merged;
      const size_t last = i + 1 == num_quantized_bins_ ? size : end;
      const int64_t count = below_[range.first + last] - below_[range.first + begin];
      int64_t nonzeros = 0;
      for (size_t k = begin; k < end; ++k) nonzeros += p_[k] != 0 ? 1 : 0;
      if (nonzeros == 0) continue;
      std::fill(q_.begin() + static_cast<ptrdiff_t>(begin),
                q_.begin() + static_cast<ptrdiff_t>(end), static_cast<double>(count / nonzeros));
    }
  }

  std::span<const int64_t> counts_;
  size_t num_quantized_bins_;
  std::vector<int64_t> below_;  // counts before bin i
  std::vector<double> p_;
  std::vector<double> q_;
};

}  // namespace

double UniformHistogram::Edge(size_t i) const {
  return threshold * (2 * static_cast<double>(i) / static_cast<double>(counts.size()) - 1);
}

UniformHistogram ToUniform(const TensorStatistics& statistics, size_t num_bins) {
  BITPRESS_DCHECK(!statistics.is_empty() && num_bins > 0);
  UniformHistogram histogram{statistics.AbsMax(), std::vector<int64_t>(num_bins)};
  const double min = statistics.min();
  const double max = statistics.max();
  const std::vector<Bin> bins = statistics.Bins();
  auto bin = bins.begin();
  double before = 0;  // elements in the bins before `bin`
  int64_t counted = 0;
  for (size_t i = 0; i < num_bins; ++i) {
    const double edge = histogram.Edge(i + 1);
    const bool is_last = i + 1 == num_bins;
    // An element on an edge belongs to the bin above it.
    while (bin != bins.end() &&
           (is_last || bin->upper < edge || (bin->upper == edge && bin->lower < edge))) {
      before += static_cast<double>(bin->count);
      ++bin;
    }
    double below = before;
    if (bin != bins.end()) {
      const double lower = std::max(bin->lower, min);
      const double upper = std::min(bin->upper, max);
      if (lower < edge && edge < upper) {
        below += static_cast<double>(bin->count) * (edge - lower) / (upper - lower);
      } else if (upper < edge) {
        below += static_cast<double>(bin->count);
      }
    }
    const int64_t rounded = std::llround(below);
    histogram.counts[i] = rounded - counted;
    counted = rounded;
  }
  return histogram;
}

BinRange LeastDivergence(const UniformHistogram& histogram, size_t num_quantized_bins) {
  const size_t num_bins = histogram.counts.size();
  BITPRESS_DCHECK(num_bins % 2 == 0 && num_quantized_bins % 2 == 0);
  BITPRESS_DCHECK(num_quantized_bins >= 2 && num_quantized_bins <= num_bins);
  const size_t zero = num_bins / 2;
  Divergence divergence(histogram.counts, num_quantized_bins);
  BinRange best;
  double least = kInfinity;
  for (size_t half = num_quantized_bins / 2; half <= zero; ++half) {
    const BinRange range{zero - half, std::min(zero + half + 1, num_bins)};
    const double candidate = divergence(range);
    if (best.last != 0 && !(candidate < least)) continue;
    best = range;
    least = candidate;
  }
  return best;
}

}  // namespace bitpress::calibrate
