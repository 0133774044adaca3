#include "report/histogram.h"

#include <algorithm>
#include <cmath>

namespace bitpress::report {
namespace {

class Counter {
 public:
  Counter(double lower, double upper)
      : histogram_{lower, upper, std::vector<uint64_t>(lower < upper ? kNumBins : 1)},
        bins_per_unit_(static_cast<double>(histogram_.counts.size()) / (upper - lower)) {}

  void Add(double value, uint64_t count) {
    const auto last = static_cast<double>(histogram_.counts.size() - 1);
    const double at = last == 0 ? 0 : std::floor((value - histogram_.lower) * bins_per_unit_);
    histogram_.counts[static_cast<size_t>(std::clamp(at, 0.0, last))] += count;
  }
  Histogram Take() { return std::move(histogram_); }

 private:
  Histogram histogram_;
  double bins_per_unit_;
};

}  // namespace

Histogram CountInto(std::span<const double> values, double lower, double upper) {
  Counter counter(lower, upper);
  for (const double value : values) {
    if (std::isfinite(value)) counter.Add(value, 1);
  }
  return counter.Take();
}

void Describe(const calibrate::TensorStatistics& statistics, TensorReport& tensor) {
  tensor.num_elements = statistics.num_elements();
  tensor.num_nonfinite = statistics.num_elements() - statistics.num_finite();
  tensor.num_zeros = statistics.num_zeros();
  if (statistics.is_empty()) return;
  tensor.min = statistics.min();
  tensor.max = statistics.max();
  tensor.mean = statistics.Mean();
  tensor.deviation = statistics.StandardDeviation();
  Counter counter(tensor.min, tensor.max);
  for (const calibrate::Bin& bin : statistics.Bins()) counter.Add(bin.center(), bin.count);
  tensor.histogram = counter.Take();
}

void Describe(std::span<const double> values, TensorReport& tensor) {
  tensor.num_elements = values.size();
  uint64_t num_finite = 0;
  double sum = 0, sum_of_squares = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    if (num_finite == 0) tensor.min = tensor.max = value;
    ++num_finite;
    tensor.num_zeros += value == 0 ? 1 : 0;
    tensor.min = std::min(tensor.min, value);
    tensor.max = std::max(tensor.max, value);
    sum += value;
    sum_of_squares += value * value;
  }
  tensor.num_nonfinite = values.size() - num_finite;
  if (num_finite == 0) return;
  const auto count = static_cast<double>(num_finite);
  tensor.mean = sum / count;
  tensor.deviation = std::sqrt(std::max(0.0, sum_of_squares / count - tensor.mean * tensor.mean));
  tensor.histogram = CountInto(values, tensor.min, tensor.max);
}

}  // namespace bitpress::report
