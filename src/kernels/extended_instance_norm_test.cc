// The properties of Quark's instance normalization. Its bits are compared with Quark's own in
// tests/golden.
#include "kernels/extended_instance_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "formats/float_bits.h"

namespace bitpress::kernels {
namespace {

std::vector<float> Normalized(const std::vector<float>& x, float scale = 1, float bias = 0,
                              float epsilon = 1e-5f) {
  std::vector<float> y(x.size());
  ExtendedInstanceNorm(x.data(), y.data(), x.size(), scale, bias, epsilon);
  return y;
}

TEST(ExtendedInstanceNorm, IsCloseToTheExactNormalization) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.5f, 3.0f);
  for (const size_t count : {size_t{2}, size_t{7}, size_t{64}, size_t{1000}}) {
    std::vector<float> x(count);
    for (float& value : x) value = normal(random);
    double mean = 0, squares = 0;
    for (const float value : x) mean += value / static_cast<double>(count);
    for (const float value : x) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(count) + 1e-5);
    const std::vector<float> y = Normalized(x, 0.75f, -0.25f);
    for (size_t i = 0; i < count; ++i) {
      // Five roundings to bfloat16 of numbers below 4.
      EXPECT_NEAR(y[i], 0.75 * (x[i] - mean) / deviation - 0.25, 0.08) << i;
    }
  }
}

TEST(ExtendedInstanceNorm, ResultsAreBfloat16) {
  for (const float value : Normalized({1.1f, 2.3f, -0.7f, 12.9f}, 0.3f, 0.1f)) {
    EXPECT_EQ(formats::FloatBits(value) & 0xFFFFu, 0u);
  }
}

TEST(ExtendedInstanceNorm, EqualValuesGiveTheBias) {
  for (const float value : Normalized(std::vector<float>(64, 1.0f), 2.0f, 0.5f)) {
    EXPECT_EQ(value, 0.5f);
  }
}

TEST(ExtendedInstanceNorm, TreatsNanAsANumberInConversions) {
  EXPECT_TRUE(std::isnan(Normalized({std::nanf(""), 1.0f})[1]));
  // The payload of a signaling NaN is cut off. The rest is infinity, whose mean is no number.
  EXPECT_TRUE(std::isnan(Normalized({formats::FloatFromBits(0x7F800001u), 1.0f})[1]));
  // A NaN whose bits are all ones becomes zero.
  EXPECT_EQ(Normalized({formats::FloatFromBits(0x7FFFFFFFu), 0.0f}, 1, 3),
            (std::vector{3.0f, 3.0f}));
}

TEST(ExtendedInstanceNorm, TakesNoValues) { EXPECT_TRUE(Normalized({}).empty()); }

}  // namespace
}  // namespace bitpress::kernels
