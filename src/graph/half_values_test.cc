#include "graph/half_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace bitpress::graph {
namespace {

TEST(HalfValues, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = WidenedHalf(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(WidenedHalf(NarrowedFloat(value)))) << bits;
    } else {
      EXPECT_EQ(NarrowedFloat(value), half) << bits;
    }
  }
}

TEST(HalfValues, RoundsToTheNearestAndSaturates) {
  for (uint16_t half = 0; half < 0x7BFF; ++half) {
    const double low = WidenedHalf(half);
    const double high = WidenedHalf(static_cast<uint16_t>(half + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(NarrowedFloat(middle), (half & 1) == 0 ? half : half + 1) << half;
    EXPECT_EQ(NarrowedFloat(-std::nextafter(middle, 0.0F)), half | 0x8000) << half;
    EXPECT_EQ(NarrowedFloat(std::nextafter(middle, 1e9F)), half + 1) << half;
  }
  EXPECT_EQ(NarrowedFloat(65520), 0x7BFF);
  EXPECT_EQ(NarrowedFloat(-3e38F), 0xFBFF);
  EXPECT_EQ(NarrowedFloat(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(NarrowedFloat(1e-9F), 0);
}

}  // namespace
}  // namespace bitpress::graph
