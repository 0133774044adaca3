#include "finetune/ridge.h"

#include <algorithm>

#include "base/check.h"

namespace bitpress::finetune {
namespace {

// Products of floats leave so much of a mean square, relative to what was there before the means
// were taken out, where nothing changes from position to position.
constexpr double kRounding = 0x1p-22;

// Returns the ridge for a matrix with this noise, all as squares of norms.
double RidgeFor(double noise, double spread) {
  // Mix: share = noise / (noise + spread) of the identity, and so share / (1 - share) beside C.
  return spread > 0 ? std::min(noise / spread, kMostRidge) : kMostRidge;
}

}  // namespace

NoiseRidges RidgesOf(const LinearLayer& layer, const Moments& first, const Moments& second,
                     bool is_centred) {
  BITPRESS_DCHECK(first.num_positions > 0 && second.num_positions > 0);
  const auto columns = static_cast<size_t>(layer.columns);
  const auto n = static_cast<double>(first.num_positions);
  const auto m = static_cast<double>(second.num_positions);
  double difference = 0;  // |A - B|^2 of the two parts' matrices, each group in its own unit
  double product = 0;     // <A, B> - |mean square * identity|^2
  for (size_t group = 0; group < static_cast<size_t>(layer.groups); ++group) {
    const double* const a = first.inputs.data() + group * columns * columns;
    const double* const b = second.inputs.data() + group * columns * columns;
    const double* const a_sums = first.input_sums.data() + group * columns;
    const double* const b_sums = second.input_sums.data() + group * columns;
    const double a_centre = is_centred ? 1 / (n * n) : 0.0;
    const double b_centre = is_centred ? 1 / (m * m) : 0.0;
    double of_difference = 0;
    double of_product = 0;
    double a_trace = 0;
    double b_trace = 0;
    double with_means = 0;
    for (size_t i = 0; i < columns; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const double x = a[i * columns + j] / n - a_centre * a_sums[i] * a_sums[j];
        const double y = b[i * columns + j] / m - b_centre * b_sums[i] * b_sums[j];
        const double times = i == j ? 1 : 2;  // both matrices are symmetric
        of_difference += times * (x - y) * (x - y);
        of_product += times * x * y;
        if (i != j) continue;
        a_trace += x;
        b_trace += y;
        with_means += a[i * columns + i] / n + b[i * columns + i] / m;
      }
    }
    // Inputs that never change, as at a single position, say nothing.
    if (!(a_trace + b_trace > kRounding * with_means)) continue;
    const double mean = (a_trace + b_trace) / 2 / static_cast<double>(columns);
    difference += of_difference / (mean * mean);
    product += of_product / (mean * mean) -
               a_trace * b_trace / static_cast<double>(columns) / (mean * mean);
  }
  // The squared noise of a matrix falls with the number of its positions: that of A - B is the sum
  // of the two.
  const double once = difference * n * m / (n + m);
  return {RidgeFor(once / n, product), RidgeFor(once / m, product),
          RidgeFor(once / (n + m), product)};
}

}  // namespace bitpress::finetune
