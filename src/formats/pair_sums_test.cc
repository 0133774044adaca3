// Pair sums against their definition, and the codes that fit against all codes.
#include "formats/pair_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace bitpress::formats {
namespace {

TEST(PairSums, SaturateAtSixteenBitsOnly) {
  const std::vector<uint8_t> activations = {255, 255, 255, 255, 255};
  EXPECT_EQ(SaturatingDot(activations, std::vector<int8_t>{127, 127, 1, 1, 127}),
            32767 + 2 * 255 + 127 * 255);
  EXPECT_EQ(SaturatingDot(activations, std::vector<int8_t>{-128, -128, -128, 127, -128}),
            -32768 - 255 - 128 * 255);
  // Neighbours are 0 and 1, not 1 and 2.
  EXPECT_EQ(SaturatingDot(activations, std::vector<int8_t>{0, 127, 127, 0, 0}), 2 * 127 * 255);
  EXPECT_EQ(SaturatingDot({}, {}), 0);
}

// Returns whether any activations within the bounds saturate. It tries the corners of the bounds,
// where a sum that is linear in both activations is largest.
bool SaturatesSomewhere(PairCodes weights, PairBounds largest) {
  for (const int32_t first : {0, largest.first}) {
    for (const int32_t second : {0, largest.second}) {
      const int32_t sum = weights.first * first + weights.second * second;
      if (sum < kLeastPairSum || sum > kLargestPairSum) return true;
    }
  }
  return false;
}

TEST(PairSums, FitWhereNoCornerSaturates) {
  for (const int32_t bound : {0, 1, 127, 128, 129, 200, 254, 255}) {
    for (int32_t first = -128; first < 128; ++first) {
      for (int32_t second = -128; second < 128; ++second) {
        const PairCodes weights{first, second};
        ASSERT_EQ(FitsPairSum(weights, {255, bound}), !SaturatesSomewhere(weights, {255, bound}))
            << first << ", " << second << " with " << bound;
      }
    }
  }
}

// Returns the least cost, found by trying all codes between zero and the rounded ones.
double LeastCost(PairCodes rounded, const PairTarget& target, PairBounds largest) {
  double least = -1;
  const auto between = [](int32_t code) {
    std::vector<int32_t> codes;
    for (int32_t c = std::min(code, 0); c <= std::max(code, 0); ++c) codes.push_back(c);
    return codes;
  };
  for (const int32_t first : between(rounded.first)) {
    for (const int32_t second : between(rounded.second)) {
      if (SaturatesSomewhere({first, second}, largest)) continue;
      const double cost = target.first_cost * (first - target.first) * (first - target.first) +
                          target.second_cost * (second - target.second) * (second - target.second);
      if (least < 0 || cost < least) least = cost;
    }
  }
  return least;
}

TEST(PairSums, FittingCodesCostLeast) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::uniform_real_distribution<double> value(-128.4, 127.4);
    std::uniform_int_distribution<int32_t> bound(100, 255);
    PairTarget target{value(random), value(random), 1, 1};
    if (round % 3 == 0) target.second_cost = std::exp2(static_cast<double>(random() % 12) - 6);
    const PairBounds largest{bound(random), bound(random)};
    const PairCodes rounded{static_cast<int32_t>(std::lround(target.first)),
                            static_cast<int32_t>(std::lround(target.second))};
    const PairCodes fitting = FitPair(rounded, target, largest);
    ASSERT_FALSE(SaturatesSomewhere(fitting, largest));
    const double cost =
        target.first_cost * (fitting.first - target.first) * (fitting.first - target.first) +
        target.second_cost * (fitting.second - target.second) * (fitting.second - target.second);
    ASSERT_EQ(cost, LeastCost(rounded, target, largest));
    if (!SaturatesSomewhere(rounded, largest)) {
      ASSERT_EQ(fitting, rounded);
    }
    ASSERT_EQ(FitPair(fitting, target, largest), fitting);
  }
}

}  // namespace
}  // namespace bitpress::formats
