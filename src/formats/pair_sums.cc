#include "formats/pair_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "base/check.h"

namespace bitpress::formats {
namespace {

bool IsInt8(int32_t code) { return code >= -128 && code <= 127; }

}  // namespace

int32_t SaturatingDot(std::span<const uint8_t> activations, std::span<const int8_t> weights) {
  BITPRESS_DCHECK(activations.size() == weights.size());
  int32_t sum = 0;
  for (size_t i = 0; i < activations.size(); i += 2) {
    int32_t pair = int32_t{activations[i]} * weights[i];
    if (i + 1 < activations.size()) pair += int32_t{activations[i + 1]} * weights[i + 1];
    sum += std::clamp(pair, kLeastPairSum, kLargestPairSum);
  }
  return sum;
}

PairCodes FitPair(PairCodes rounded, const PairTarget& target, PairBounds largest) {
  BITPRESS_DCHECK(IsInt8(rounded.first) && IsInt8(rounded.second));
  if (FitsPairSum(rounded, largest)) return rounded;
  // One product fits (255 * 128), so the two products have the same sign.
  const int32_t sign = rounded.first < 0 ? -1 : 1;
  const int32_t most_first = std::abs(rounded.first);
  const int32_t most_second = std::abs(rounded.second);
  const int32_t limit = sign > 0 ? kLargestPairSum : -kLeastPairSum;
  PairCodes best;
  double least = -1;
  for (int32_t first = 0; first <= most_first; ++first) {
    // Both bounds are positive, because the pair does not fit.
    const int32_t second = std::min(most_second, (limit - first * largest.first) / largest.second);
    const double first_error = sign * first - target.first;
    const double second_error = sign * second - target.second;
    const double cost = target.first_cost * first_error * first_error +
                        target.second_cost * second_error * second_error;
    if (least >= 0 && cost >= least) continue;
    least = cost;
    best = {sign * first, sign * second};
  }
  return best;
}

}  // namespace bitpress::formats
