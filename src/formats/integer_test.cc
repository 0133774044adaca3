// Integer codes with scale and zero point against an oracle in 128-bit integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/reference.h"
#include "formats/test_oracle.h"

namespace bitpress::formats {
namespace {

constexpr ElementType kTypes[] = {
    ElementType::kInt2,  ElementType::kUInt2,  ElementType::kInt3,  ElementType::kUInt3,
    ElementType::kInt4,  ElementType::kUInt4,  ElementType::kInt8,  ElementType::kUInt8,
    ElementType::kInt16, ElementType::kUInt16, ElementType::kInt32, ElementType::kUInt32,
};
constexpr RoundingMode kModes[] = {RoundingMode::kHalfToEven, RoundingMode::kHalfAwayFromZero,
                                   RoundingMode::kHalfUp};

class Integers : public testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(All, Integers, testing::ValuesIn(kTypes),
                         [](const auto& row) { return std::string(TraitsOf(row.param).name); });

std::vector<int64_t> ZeroPoints(CodeRange range) {
  return {0, range.quant_min, range.quant_max, range.quant_min + 1,
          (range.quant_max + range.quant_min) / 2 + 1};
}

void ExpectOracle(float x, float scale, int64_t zero_point, CodeRange range) {
  for (const RoundingMode mode : kModes) {
    ASSERT_EQ(ref::QuantizeInteger(x, scale, zero_point, range, mode),
              oracle::QuantizeInteger(x, scale, zero_point, range, mode))
        << x << " / " << scale << " + " << zero_point << " " << RoundingModeName(mode);
  }
}

TEST(IntegerRanges, AreThoseOfTheTypes) {
  const int64_t expected[][2] = {{-2, 1},
                                 {0, 3},
                                 {-4, 3},
                                 {0, 7},
                                 {-8, 7},
                                 {0, 15},
                                 {-128, 127},
                                 {0, 255},
                                 {-32768, 32767},
                                 {0, 65535},
                                 {-2147483648LL, 2147483647LL},
                                 {0, 4294967295LL}};
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    EXPECT_EQ(IntegerRange(kTypes[i]).quant_min, expected[i][0]) << TraitsOf(kTypes[i]).name;
    EXPECT_EQ(IntegerRange(kTypes[i]).quant_max, expected[i][1]) << TraitsOf(kTypes[i]).name;
  }
}

// Types of few codes: every value from beyond the first code to beyond the last, in steps of a
// quarter, by the rule written out.
TEST(ThreeBits, EveryCodeTieAndSaturation) {
  for (const ElementType type : {ElementType::kInt3, ElementType::kUInt3}) {
    const CodeRange range = IntegerRange(type);
    for (int64_t zero_point = range.quant_min; zero_point <= range.quant_max; ++zero_point) {
      for (int64_t quarters = -64; quarters <= 64; ++quarters) {
        const int64_t below = quarters >= 0 ? quarters / 4 : -((-quarters + 3) / 4);  // floor
        const int64_t rest = quarters - 4 * below;
        const bool is_up = rest > 2 || (rest == 2 && below % 2 != 0);
        const int64_t wanted =
            std::clamp(below + (is_up ? 1 : 0) + zero_point, range.quant_min, range.quant_max);
        const float x = static_cast<float>(quarters) * 0.25F * 0.5F;
        EXPECT_EQ(ref::QuantizeInteger(x, 0.5F, zero_point, range), wanted)
            << quarters << " quarters + " << zero_point;
      }
    }
  }
}

TEST_P(Integers, TiesAndTheirNeighboursRoundAsTheOracleSays) {
  const CodeRange range = IntegerRange(GetParam());
  const int64_t span = std::min<int64_t>(range.quant_max - range.quant_min, 300);
  for (const float scale : {1.0f, 0.5f, 0x1p-126f, 0x1p-149f, 0x1p100f, 0.1f, 3.0f, 0.0078125f}) {
    for (const int64_t zero_point : ZeroPoints(range)) {
      for (int64_t half = -2 * span - 3; half <= 2 * span + 3; half += 1) {
        const float x = static_cast<float>(half) * 0.5f * scale;
        if (!IsFinite(x)) continue;
        const float big = std::numeric_limits<float>::max();
        ExpectOracle(x, scale, zero_point, range);
        ExpectOracle(std::nextafter(x, big), scale, zero_point, range);
        ExpectOracle(std::nextafter(x, -big), scale, zero_point, range);
      }
    }
  }
}

TEST_P(Integers, EveryExponentOfInputAndScale) {
  const CodeRange range = IntegerRange(GetParam());
  std::mt19937 generator(7);
  for (uint32_t x_exponent = 0; x_exponent < 255; ++x_exponent) {
    for (uint32_t scale_exponent = 0; scale_exponent < 255; scale_exponent += 2) {
      const float x =
          FloatFromBits(x_exponent << 23 | (static_cast<uint32_t>(generator()) & 0x807FFFFFu));
      const float scale = FloatFromBits(scale_exponent << 23 |
                                        (static_cast<uint32_t>(generator()) & 0x007FFFFFu) | 1u);
      ExpectOracle(x, scale, ZeroPoints(range)[scale_exponent % 5], range);
    }
    // Rounding decides about quotients near the codes.
    for (int i = 0; i < 64; ++i) {
      const float scale = FloatFromBits(
          (x_exponent << 23 | (static_cast<uint32_t>(generator()) & 0x007FFFFFu)) + 1u);
      if (!IsFinite(scale)) continue;
      const double width = static_cast<double>(range.quant_max) * 2.2;
      const double wanted = (static_cast<double>(generator()) / 4294967296.0 - 0.5) * width;
      const float x = RoundToFloat(ToDouble(scale) * wanted);
      if (IsFinite(x)) ExpectOracle(x, scale, ZeroPoints(range)[static_cast<size_t>(i) % 5], range);
    }
  }
}

TEST_P(Integers, SpecialValuesHaveStatedCodes) {
  const CodeRange range = IntegerRange(GetParam());
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t zero_point : ZeroPoints(range)) {
    for (const float scale : {0x1p-149f, 0.02f, 1.0f, std::numeric_limits<float>::max()}) {
      EXPECT_EQ(ref::QuantizeInteger(infinity, scale, zero_point, range), range.quant_max);
      EXPECT_EQ(ref::QuantizeInteger(-infinity, scale, zero_point, range), range.quant_min);
      EXPECT_EQ(ref::QuantizeInteger(std::nanf(""), scale, zero_point, range), zero_point);
      EXPECT_EQ(ref::QuantizeInteger(-std::nanf(""), scale, zero_point, range), zero_point);
      EXPECT_EQ(ref::QuantizeInteger(0.0f, scale, zero_point, range), zero_point);
      EXPECT_EQ(ref::QuantizeInteger(-0.0f, scale, zero_point, range), zero_point);
    }
    // Quotients beyond float32 saturate as well.
    const float big = std::numeric_limits<float>::max();
    EXPECT_EQ(ref::QuantizeInteger(big, 0x1p-149f, zero_point, range), range.quant_max);
    EXPECT_EQ(ref::QuantizeInteger(-big, 0x1p-149f, zero_point, range), range.quant_min);
  }
}

// The value is (q - zero_point) * scale. Both the difference as float32 and the product are
// rounded.
TEST_P(Integers, DequantizeIsTheFloatProduct) {
  const CodeRange range = IntegerRange(GetParam());
  const int64_t codes = range.quant_max - range.quant_min + 1;
  const int64_t step = std::max<int64_t>(1, codes / 1021);
  for (const float scale : {0.1f, 1.0f, 0x1.234568p-3f, 0x1p-140f, 0x1.8p96f}) {
    for (const int64_t zero_point : ZeroPoints(range)) {
      for (int64_t code = range.quant_min; code <= range.quant_max; code += step) {
        const float difference = oracle::NearestFloat(static_cast<long double>(code - zero_point));
        const float expected = oracle::NearestFloat(static_cast<long double>(difference) *
                                                    static_cast<long double>(scale));
        const float actual = ref::DequantizeInteger(code, scale, zero_point);
        ASSERT_EQ(FloatBits(actual), FloatBits(expected))
            << code << " - " << zero_point << ", scale " << scale;
      }
    }
  }
}

TEST_P(Integers, CodesSurviveDequantizeAndQuantize) {
  const CodeRange range = IntegerRange(GetParam());
  // Beyond 2^24 float32 does not hold every code.
  const int64_t limit = int64_t{1} << 22;
  const int64_t low = std::max(range.quant_min, -limit);
  const int64_t high = std::min(range.quant_max, limit);
  const int64_t step = std::max<int64_t>(1, (high - low) / 65536);
  for (const float scale : {0.1f, 1.0f, 0x1.FFFFFEp-7f, 3e-5f}) {
    for (int64_t code = low; code <= high; code += step) {
      const float x = ref::DequantizeInteger(code, scale, 0);
      ASSERT_EQ(ref::QuantizeInteger(x, scale, 0, range), code) << scale;
    }
  }
}

TEST(RoundToInteger, FollowsTheMode) {
  const struct {
    double x, to_even, away, up;
  } cases[] = {
      {0.5, 0, 1, 1},
      {-0.5, 0, -1, 0},
      {1.5, 2, 2, 2},
      {-1.5, -2, -2, -1},
      {2.5, 2, 3, 3},
      {-2.5, -2, -3, -2},
      {0.25, 0, 0, 0},
      {-0.75, -1, -1, -1},
      {3, 3, 3, 3},
      {-3, -3, -3, -3},
      {0x1p51, 0x1p51, 0x1p51, 0x1p51},
      {0.49999999999999994, 0, 0, 0},
      {-0.49999999999999994, 0, 0, 0},
      {4503599627370495.5, 4503599627370496.0, 4503599627370496.0, 4503599627370496.0},
      {-4503599627370494.5, -4503599627370494.0, -4503599627370495.0, -4503599627370494.0},
      {2251799813685249.0, 2251799813685249.0, 2251799813685249.0, 2251799813685249.0},
      {4503599627370493.0, 4503599627370493.0, 4503599627370493.0, 4503599627370493.0},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ref::RoundToInteger(c.x, RoundingMode::kHalfToEven), c.to_even) << c.x;
    EXPECT_EQ(ref::RoundToInteger(c.x, RoundingMode::kHalfAwayFromZero), c.away) << c.x;
    EXPECT_EQ(ref::RoundToInteger(c.x, RoundingMode::kHalfUp), c.up) << c.x;
  }
}

}  // namespace
}  // namespace bitpress::formats
