#include "formats/qparams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "formats/reference.h"

namespace bitpress::formats {
namespace {

IntegerSpec Spec(ElementType type, bool is_symmetric, bool is_reduced = false,
                 ScaleKind kind = ScaleKind::kFloat) {
  return {type, is_symmetric, is_reduced, kind};
}

TEST(QParams, TheFormulas) {
  EXPECT_EQ(QParamsForRange(-1, 2, Spec(ElementType::kInt8, true)),
            (QParams{static_cast<float>(4.0 / 254), 0}));
  EXPECT_EQ(QParamsForRange(-1, 2, Spec(ElementType::kUInt8, true)),
            (QParams{static_cast<float>(4.0 / 255), 128}));
  EXPECT_EQ(QParamsForRange(-1, 2, Spec(ElementType::kUInt8, false)),
            (QParams{static_cast<float>(3.0 / 255), 85}));
  EXPECT_EQ(QParamsForRange(-1, 2, Spec(ElementType::kInt8, false)),
            (QParams{static_cast<float>(3.0 / 255), -43}));
  EXPECT_EQ(QParamsForRange(-1, 2, Spec(ElementType::kInt8, true, true)),
            (QParams{static_cast<float>(4.0 / 128), 0}));
  EXPECT_EQ(QParamsForRange(0, 2, Spec(ElementType::kUInt8, false, true)),
            (QParams{static_cast<float>(2.0 / 127), 0}));
  EXPECT_EQ(QParamsForRange(-7, 7, Spec(ElementType::kInt4, true)), (QParams{1, 0}));
  EXPECT_EQ(QParamsForRange(-32767, 3, Spec(ElementType::kInt16, true)), (QParams{1, 0}));
  EXPECT_EQ(QParamsForRange(0, 65535, Spec(ElementType::kUInt16, false)), (QParams{1, 0}));
}

TEST(QParams, ZeroIsAlwaysACode) {
  EXPECT_EQ(QParamsForRange(3, 6, Spec(ElementType::kUInt8, false)),
            QParamsForRange(0, 6, Spec(ElementType::kUInt8, false)));
  EXPECT_EQ(QParamsForRange(-6, -3, Spec(ElementType::kUInt8, false)).zero_point, 255);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> number(-3, 3);
  for (int i = 0; i < 1000; ++i) {
    const double a = number(random), b = number(random);
    for (const ElementType type : {ElementType::kInt4, ElementType::kUInt4, ElementType::kInt8,
                                   ElementType::kUInt8, ElementType::kUInt16}) {
      const IntegerSpec spec = Spec(type, false);
      const QParams params = QParamsForRange(std::min(a, b), std::max(a, b), spec);
      const int64_t code =
          ref::QuantizeInteger(0, params.scale, params.zero_point, IntegerRange(type));
      EXPECT_EQ(ref::DequantizeInteger(code, params.scale, params.zero_point), 0);
      const FloatRange covered = RangeOf(params, spec);
      EXPECT_GE(covered.max, std::max({a, b, 0.0}) - params.scale);
      EXPECT_LE(covered.min, std::min({a, b, 0.0}) + params.scale);
    }
  }
}

TEST(QParams, RangesThatAreNone) {
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(QParamsForRange(0, 0, Spec(ElementType::kInt8, true)), (QParams{1, 0}));
  EXPECT_EQ(QParamsForRange(0, 0, Spec(ElementType::kUInt8, true)), (QParams{1, 128}));
  EXPECT_EQ(QParamsForRange(0, 1e-44, Spec(ElementType::kUInt8, false)), (QParams{1, 0}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(QParamsForRange(-infinity, infinity, Spec(ElementType::kInt8, true)).scale,
            static_cast<float>(huge / 254.0));
}

TEST(QParams, PowersOfTwo) {
  const auto scale = [](double amax) {
    return QParamsForRange(-amax, amax,
                           Spec(ElementType::kInt8, true, false, ScaleKind::kPowerOfTwo))
        .scale;
  };
  EXPECT_EQ(scale(127), 1);
  EXPECT_EQ(scale(127.5), 2) << "nothing saturates";
  EXPECT_EQ(scale(63.5), 0.5F);
  EXPECT_EQ(AllowedScale(0.7, ScaleKind::kPowerOfTwo), 0.5F) << "log2 0.7 = -0.51";
  EXPECT_EQ(AllowedScale(0.75, ScaleKind::kPowerOfTwo), 1.0F) << "log2 0.75 = -0.42";
  EXPECT_EQ(AllowedScale(0x1p-140, ScaleKind::kPowerOfTwo), 0x1p-127F);
}

TEST(QParams, MultiplierAndShift) {
  EXPECT_EQ(AllowedScale(0.5, ScaleKind::kInt16), 0.5F);
  EXPECT_EQ(AllowedScale(3, ScaleKind::kInt16), 3.0F);
  EXPECT_EQ(AllowedScale(1e-9, ScaleKind::kInt16), 0x1p-16F);
  EXPECT_EQ(AllowedScale(1e9, ScaleKind::kInt16), 32767.0F);
  for (double value = 0.001; value < 1000; value *= 1.37) {
    EXPECT_NEAR(AllowedScale(value, ScaleKind::kInt16), value, std::max(value / 16383, 0x1p-17));
  }
}

TEST(QParams, MultiplierAndShiftIsTheNearestOfAllShifts) {
  // Two shifts could differ at halves of the finest grids and next to them, and where the smallest
  // multipliers end and the largest.
  for (int shift = 0; shift <= 18; ++shift) {
    for (int halves = 1; halves < 4 * 32768;
         halves += halves < 200 || std::abs(halves - 65535) < 150 ? 1 : 37) {
      for (const double nudge : {1.0, 1 - 1e-12, 1 + 1e-12}) {
        const double scale = std::ldexp(halves / 2.0, -shift) * nudge;
        double nearest = 0;
        for (int n = 0; n <= 16; ++n) {
          const double m = std::clamp(std::nearbyint(std::ldexp(scale, n)), 1.0, 32767.0);
          const double candidate = std::ldexp(m, -n);
          const bool is_nearer = std::abs(candidate - scale) < std::abs(nearest - scale);
          if (n == 0 || is_nearer) nearest = candidate;
        }
        ASSERT_EQ(AllowedScale(scale, ScaleKind::kInt16), static_cast<float>(nearest)) << scale;
      }
    }
  }
}

TEST(QParams, Words) {
  for (const ScaleKind kind : {ScaleKind::kFloat, ScaleKind::kPowerOfTwo, ScaleKind::kInt16}) {
    EXPECT_EQ(ParseScaleKind(ScaleKindName(kind)), kind);
  }
  EXPECT_THROW(ParseScaleKind("pow2"), Error);
}

}  // namespace
}  // namespace bitpress::formats
