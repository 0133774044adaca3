#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace bitpress {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

TEST(ExactSum, IsExactWhereDoubleIsNot) {
  ExactSum sum;
  sum.Add(kLargest);
  sum.Add(kSmallest);
  sum.Add(-kLargest);
  EXPECT_EQ(sum.Round(), std::ldexp(1.0, -149));
  sum.Add(-kSmallest);
  EXPECT_EQ(sum, ExactSum());
  EXPECT_EQ(sum.Round(), 0.0);
}

TEST(ExactSum, GoesBelowZeroAndBack) {
  ExactSum sum;
  sum.Add(-kSmallest);
  EXPECT_EQ(sum.Round(), -std::ldexp(1.0, -149));
  sum.AddSquare(kLargest);
  sum.AddScaled(UInt128{1}, -149, false);
  EXPECT_EQ(sum.Round(), double{kLargest} * kLargest);
}

TEST(ExactSum, RoundsHalvesToEven) {
  const auto round = [](std::initializer_list<int> exponents) {
    ExactSum sum;
    for (const int exponent : exponents) sum.AddScaled(1, exponent, false);
    return sum.Round();
  };
  EXPECT_EQ(round({60, 7}), std::ldexp(1.0, 60));                             // a tie
  EXPECT_EQ(round({60, 7, -200}), std::ldexp(1.0, 60) + std::ldexp(1.0, 8));  // just above it
  EXPECT_EQ(round({60, 8, 7}), std::ldexp(1.0, 60) + std::ldexp(1.0, 9));
}

TEST(ExactSum, AgreesWithLongDoubleOnIntegers) {
  std::mt19937_64 random(7);
  ExactSum sum;
  int64_t expected = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto x = static_cast<int32_t>(random() >> 41) - (1 << 22);
    sum.Add(static_cast<float>(x));
    expected += x;
    ASSERT_EQ(sum.Round(), static_cast<double>(expected));
  }
}

TEST(ExactSum, AddsDoublesWithoutTheirOrder) {
  std::mt19937_64 random(8);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) {
    const double digits = static_cast<double>(random()) - 0x1p63;
    values.push_back(std::ldexp(digits, static_cast<int>(random() % 600) - 420));
  }
  ExactSum sum;
  for (const double value : values) sum.AddDouble(value);
  std::shuffle(values.begin(), values.end(), random);
  ExactSum parts[2];
  for (size_t i = 0; i < values.size(); ++i) parts[i % 7 == 0 ? 1 : 0].AddDouble(values[i]);
  parts[1].Add(parts[0]);
  EXPECT_EQ(parts[1], sum);
  for (const double value : values) parts[1].AddDouble(-value);
  EXPECT_EQ(parts[1], ExactSum());
}

TEST(ExactSum, TakesDoublesAsTheyAre) {
  const auto round = [](double x) {
    ExactSum sum;
    sum.AddDouble(x);
    return sum.Round();
  };
  for (const double x : {0.0, 1.0, -1.5, 0.1, 1e-70, -3e83, std::ldexp(1.0, -298), 1 - 0x1p-53}) {
    EXPECT_EQ(round(x), x);
  }
  EXPECT_EQ(round(std::ldexp(1.75, -298)), std::ldexp(1.0, -298));
  EXPECT_EQ(round(std::ldexp(1.75, -299)), 0);
  EXPECT_EQ(round(std::numeric_limits<double>::denorm_min()), 0);
}

}  // namespace
}  // namespace bitpress
