#include "kernels/window_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/exact_sum.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

class WindowSumsTest : public TargetTest {};

// The sums as other code adds numbers up.
struct ExactTotals {
  ExactSum sum, squares;
  bool operator==(const ExactTotals&) const = default;
};

ExactTotals TotalsOf(const WindowSums& sums) {
  ExactTotals totals;
  constexpr int kUnit = kFirstWindowField - 150;  // of the significand of that field
  const auto magnitude = static_cast<uint64_t>(sums.sum < 0 ? -sums.sum : sums.sum);
  totals.sum.AddScaled(magnitude, kUnit, sums.sum < 0);
  totals.squares.AddScaled(sums.low_squares, 2 * kUnit, false);
  totals.squares.AddScaled(sums.mixed, 2 * kUnit + 27, false);
  totals.squares.AddScaled(sums.high_squares, 2 * kUnit + 52, false);
  return totals;
}

float RandomInWindow(std::mt19937& random) {
  const auto bits = static_cast<uint32_t>(random()) & 0x807FFFFFU;
  const auto field = static_cast<uint32_t>(kFirstWindowField + random() % kNumWindowFields);
  return std::bit_cast<float>(bits | field << 23);
}

TEST_P(WindowSumsTest, AreExact) {
  std::mt19937 random(1);
  for (size_t length = 0; length <= kMostWindowElements; length += length < 70 ? 1 : 63) {
    std::vector<float> values(length);
    ExactTotals expected;
    for (float& x : values) {
      x = random() % 8 == 0 ? (random() % 2 == 0 ? 0.0F : -0.0F) : RandomInWindow(random);
      expected.sum.Add(x);
      expected.squares.AddSquare(x);
    }
    WindowSums sums;
    ASSERT_TRUE(AddInWindow(values, sums)) << length;
    EXPECT_TRUE(TotalsOf(sums) == expected) << length;
    if (length == 0) continue;
    EXPECT_EQ(sums.min, *std::ranges::min_element(values));
    EXPECT_EQ(sums.max, *std::ranges::max_element(values));
  }
}

TEST_P(WindowSumsTest, TheLargestFit) {
  const float largest = std::nextafter(0x1p11F, 0.0F);
  for (const float x : {largest, -largest, 0x1p-18F}) {
    const std::vector<float> values(kMostWindowElements, x);
    ExactTotals expected;
    for (const float value : values) {
      expected.sum.Add(value);
      expected.squares.AddSquare(value);
    }
    WindowSums sums;
    ASSERT_TRUE(AddInWindow(values, sums));
    EXPECT_TRUE(TotalsOf(sums) == expected) << x;
  }
}

TEST_P(WindowSumsTest, NegativeZeroCountsAsZero) {
  const std::vector<float> values(40, -0.0F);
  WindowSums sums;
  ASSERT_TRUE(AddInWindow(values, sums));
  EXPECT_FALSE(std::signbit(sums.min) || std::signbit(sums.max));
}

// Each of them at each place of a vector and of the rest behind the vectors.
TEST_P(WindowSumsTest, NumbersBeyondTheWindowAreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {0x1p11F, -0x1p11F, std::nextafter(0x1p-18F, 0.0F), 1e-45F, kInfinity,
                        -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t at = 0; at < 37; ++at) {
      std::vector<float> values(37, 1.0F);
      values[at] = x;
      WindowSums sums;
      EXPECT_FALSE(AddInWindow(values, sums)) << x << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, WindowSumsTest, testing::ValuesIn(SupportedTargets()),
                         NameOfTargetParam);

}  // namespace
}  // namespace bitpress::kernels
