// The floating-point element types against the oracle and against ml_dtypes: every code decoded,
// every 16-bit input encoded, and float32 inputs over all exponents.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/reference.h"
#include "formats/test_ml_dtypes_golden.h"
#include "formats/test_oracle.h"

namespace bitpress::formats {
namespace {

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();

class FloatTypes : public testing::TestWithParam<ElementType> {
 protected:
  ElementType type() const { return GetParam(); }
  uint32_t num_codes() const { return oracle::NumCodes(type()); }
  uint32_t sign_code() const { return num_codes() / 2; }
};

std::string TypeName(const testing::TestParamInfo<ElementType>& info) {
  return std::string(TraitsOf(info.param).name);
}

INSTANTIATE_TEST_SUITE_P(All, FloatTypes,
                         testing::ValuesIn(oracle::FloatTypes().begin(),
                                           oracle::FloatTypes().end()),
                         TypeName);

// Expects the reference to give the oracle's code for a finite x; counts so that a test that fails
// everywhere stays readable.
class EncodeChecker {
 public:
  explicit EncodeChecker(ElementType type) : type_(type) {}
  void Check(double x) {
    ++checked_;
    const uint32_t expected = oracle::EncodeFinite(x, type_);
    const uint32_t actual = ref::EncodeFloat(x, type_);
    if (actual == expected || ++failed_ > 5) return;
    ADD_FAILURE() << TraitsOf(type_).name << " " << x << " (" << std::hexfloat << x << "): code "
                  << std::hex << actual << ", the nearest is " << expected;
  }
  ~EncodeChecker() { EXPECT_EQ(failed_, 0) << "of " << checked_ << " inputs"; }
  EncodeChecker(const EncodeChecker&) = delete;
  EncodeChecker& operator=(const EncodeChecker&) = delete;

 private:
  ElementType type_;
  int64_t checked_ = 0;
  int64_t failed_ = 0;
};

TEST_P(FloatTypes, EveryCodeDecodesToTheValueOfItsDefinition) {
  for (uint32_t code = 0; code < num_codes(); ++code) {
    const double expected = static_cast<double>(oracle::Decode(code, type()));
    const double actual = ref::DecodeFloat(code, type());
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<uint64_t>(actual), std::bit_cast<uint64_t>(expected)) << code;
    }
  }
}

TEST_P(FloatTypes, EveryCodeSurvivesDecodeAndEncode) {
  for (uint32_t code = 0; code < num_codes(); ++code) {
    const double value = ref::DecodeFloat(code, type());
    const uint32_t again = ref::EncodeFloat(value, type());
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ref::DecodeFloat(again, type()))) << code;
    } else {
      EXPECT_EQ(again, code);
    }
  }
}

TEST_P(FloatTypes, EveryFloat16InputEncodesToTheNearestCode) {
  EncodeChecker checker(type());
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const long double x = oracle::Decode(bits, ElementType::kFloat16);
    if (std::isfinite(x)) checker.Check(static_cast<double>(x));
  }
}

TEST_P(FloatTypes, EveryBFloat16InputEncodesToTheNearestCode) {
  EncodeChecker checker(type());
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const long double x = oracle::Decode(bits, ElementType::kBFloat16);
    if (std::isfinite(x)) checker.Check(static_cast<double>(x));
  }
}

TEST_P(FloatTypes, Float32InputsOfAllExponentsEncodeToTheNearestCode) {
  EncodeChecker checker(type());
  std::vector<uint32_t> mantissas = {0, 1, 2, 3, 0x7FFFFF, 0x7FFFFE, 0x7FFFFD, 0x2AAAAA, 0x555555};
  for (int bit = 0; bit < 23; ++bit) {
    // Mantissas of one bit, of all bits above it and of all from it on, and one step below and
    // above give ties at every width of mantissa.
    const uint32_t one = 1u << bit;
    const uint32_t ones = 0x7FFFFFu & ~(one - 1);
    for (const uint32_t m : {one, ones, ones << 1, 0x400000u | one, 3u << bit, 5u << bit}) {
      for (const uint32_t step : {0x7FFFFFu, 0u, 1u}) mantissas.push_back((m + step) & 0x7FFFFFu);
    }
  }
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const uint32_t mantissa : mantissas) {
      const float x = std::bit_cast<float>(exponent << 23 | mantissa);
      checker.Check(ToDouble(x));
      checker.Check(ToDouble(-x));
    }
  }
}

TEST_P(FloatTypes, MidpointsOfNeighboursTakeTheEvenCodeAndBesideThemTheNearer) {
  EncodeChecker checker(type());
  for (uint32_t code = 0; code + 1 < sign_code(); ++code) {
    const long double low = oracle::Decode(code, type());
    const long double high = oracle::Decode(code + 1, type());
    if (!std::isfinite(low) || !std::isfinite(high)) break;
    const double middle = static_cast<double>((low + high) / 2);
    const float middle_float = static_cast<float>(middle);
    for (const double x :
         {middle, std::nextafter(middle, 0.0), std::nextafter(middle, kDoubleInfinity),
          ToDouble(std::nextafter(middle_float, 0.0f)),
          ToDouble(std::nextafter(middle_float, std::numeric_limits<float>::infinity()))}) {
      checker.Check(x);
      checker.Check(-x);
    }
    EXPECT_EQ(ref::EncodeFloat(middle, type()), code % 2 == 0 ? code : code + 1);
  }
}

TEST_P(FloatTypes, BeyondTheLargestValueSaturates) {
  const FloatLayout layout = LayoutOf(type());
  const uint32_t top = ref::EncodeFloat(layout.max_value, type());
  EXPECT_EQ(ref::DecodeFloat(top, type()), layout.max_value);
  for (const double factor : {1.0 + 0x1p-52, 1.03, 1.0625, 1.25, 2.0, 1e9, 1e200}) {
    EXPECT_EQ(ref::EncodeFloat(layout.max_value * factor, type()), top) << factor;
    EXPECT_EQ(ref::EncodeFloat(-layout.max_value * factor, type()), top | sign_code()) << factor;
  }
}

TEST_P(FloatTypes, InfinityAndNanTakeTheCodesTheTypeHas) {
  const FloatLayout layout = LayoutOf(type());
  const double infinity = ref::DecodeFloat(ref::EncodeFloat(kDoubleInfinity, type()), type());
  const double negative = ref::DecodeFloat(ref::EncodeFloat(-kDoubleInfinity, type()), type());
  if (layout.has_infinity) {
    EXPECT_EQ(infinity, kDoubleInfinity);
    EXPECT_EQ(negative, -kDoubleInfinity);
  } else if (layout.has_nan) {
    EXPECT_TRUE(std::isnan(infinity));
    EXPECT_TRUE(std::isnan(negative));
  } else {
    EXPECT_EQ(infinity, layout.max_value);
    EXPECT_EQ(negative, -layout.max_value);
  }
  if (layout.has_nan) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(ref::DecodeFloat(ref::EncodeFloat(nan, type()), type())));
    EXPECT_TRUE(std::isnan(ref::DecodeFloat(ref::EncodeFloat(-nan, type()), type())));
  }
}

TEST_P(FloatTypes, ZeroKeepsItsSignAndSmallValuesRoundToIt) {
  EXPECT_EQ(ref::EncodeFloat(0.0, type()), 0u);
  EXPECT_EQ(ref::EncodeFloat(-0.0, type()), sign_code());
  const double smallest = ref::DecodeFloat(1, type());
  EXPECT_EQ(ref::EncodeFloat(smallest / 2, type()), 0u);
  EXPECT_EQ(ref::EncodeFloat(-smallest / 2, type()), sign_code());
  EXPECT_EQ(ref::EncodeFloat(std::nextafter(smallest / 2, 1.0), type()), 1u);
  EXPECT_EQ(ref::EncodeFloat(smallest * 1.5, type()), 2u);
  EXPECT_EQ(ref::EncodeFloat(0x1p-149, type()), 0u);
}

TEST_P(FloatTypes, EncodingIsMonotonicAndSignSymmetric) {
  double previous = 0;
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 16411) {
    const double x = ToDouble(std::bit_cast<float>(bits));
    const double y = ref::DecodeFloat(ref::EncodeFloat(x, type()), type());
    ASSERT_GE(y, previous) << x;
    ASSERT_EQ(ref::EncodeFloat(-x, type()), ref::EncodeFloat(x, type()) | sign_code()) << x;
    previous = y;
  }
}

// Facts printed in the texts, which a mistake common to reference and oracle would miss.
struct Facts {
  ElementType type;
  double max_value;
  double min_normal;
  double min_subnormal;
  int max_exponent;
  bool has_infinity;
  bool has_nan;
};

TEST(FloatLayouts, MatchTheTablesOfTheSpecifications) {
  const Facts facts[] = {
      {ElementType::kFloat16, 65504, 0x1p-14, 0x1p-24, 15, true, true},
      {ElementType::kBFloat16, 0x1.FEp127, 0x1p-126, 0x1p-133, 127, true, true},
      // OCP OFP8 1.0 table 2, OCP MX 1.0 tables 4 and 5.
      {ElementType::kFloat8E4M3, 448, 0x1p-6, 0x1p-9, 8, false, true},
      {ElementType::kFloat8E5M2, 57344, 0x1p-14, 0x1p-16, 15, true, true},
      {ElementType::kFloat6E2M3, 7.5, 1, 0.125, 2, false, false},
      {ElementType::kFloat6E3M2, 28, 0.25, 0.0625, 4, false, false},
      {ElementType::kFloat4E2M1, 6, 1, 0.5, 2, false, false},
  };
  for (const Facts& fact : facts) {
    SCOPED_TRACE(TraitsOf(fact.type).name);
    const FloatLayout layout = LayoutOf(fact.type);
    EXPECT_EQ(layout.max_value, fact.max_value);
    EXPECT_EQ(layout.max_exponent, fact.max_exponent);
    EXPECT_EQ(layout.has_infinity, fact.has_infinity);
    EXPECT_EQ(layout.has_nan, fact.has_nan);
    EXPECT_EQ(std::ldexp(1.0, 1 - layout.bias), fact.min_normal);
    EXPECT_EQ(ref::DecodeFloat(1, fact.type), fact.min_subnormal);
    EXPECT_EQ(ref::DecodeFloat(1u << layout.mantissa_bits, fact.type), fact.min_normal);
    EXPECT_EQ(TraitsOf(fact.type).kind, ElementKind::kFloat);
  }
  EXPECT_EQ(TraitsOf(ElementType::kInt8).kind, ElementKind::kTwosComplement);
  EXPECT_EQ(TraitsOf(ElementType::kSignMagnitude).kind, ElementKind::kSignMagnitude);
}

TEST(Golden, MlDtypesDecodesTheSameValues) {
  for (const golden::FloatType& golden_type : golden::kFloatTypes) {
    for (uint32_t code = 0; code < golden_type.values.size(); ++code) {
      const float actual = RoundToFloat(ref::DecodeFloat(code, golden_type.type));
      const uint32_t bits = IsNan(actual) ? 0x7FC00000u : FloatBits(actual);
      EXPECT_EQ(bits, golden_type.values[code]) << TraitsOf(golden_type.type).name << code;
    }
  }
}

TEST(Golden, MlDtypesEncodesToTheSameCodes) {
  for (const golden::FloatType& golden_type : golden::kFloatTypes) {
    ASSERT_FALSE(golden_type.encoded.empty());
    for (const golden::EncodeCase& c : golden_type.encoded) {
      EXPECT_EQ(ref::EncodeFloat(ToDouble(FloatFromBits(c.input)), golden_type.type), c.code)
          << TraitsOf(golden_type.type).name << " " << FloatFromBits(c.input);
    }
  }
}

// Unblocked formats element by element, with the special values their rules state.
TEST(FloatFormats, FakeQuantizeRoundsEachElement) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"fp16", "bf16", "fp8_e4m3", "fp8_e5m2"}) {
    SCOPED_TRACE(name);
    const FormatSpec spec = FindFormat(name);
    std::vector<float> x = {0.0f, -0.0f, infinity, -infinity, nan};
    for (uint32_t bits = 1; bits < 0x7F800000u; bits += 1000003) {
      x.push_back(std::bit_cast<float>(bits));
      x.push_back(-std::bit_cast<float>(bits));
    }
    std::vector<float> y(x.size());
    ref::FakeQuantize(spec, x, y, 1, static_cast<int64_t>(x.size()), 1);
    for (size_t i = 5; i < x.size(); ++i) {
      const uint32_t code = oracle::EncodeFinite(static_cast<long double>(x[i]), spec.element_type);
      const float expected = oracle::NearestFloat(oracle::Decode(code, spec.element_type));
      ASSERT_EQ(FloatBits(y[i]), FloatBits(expected)) << x[i];
    }
    EXPECT_EQ(FloatBits(y[0]), 0u);
    EXPECT_EQ(FloatBits(y[1]), kFloatSignBit);
    // FP8 follows ONNX's saturating cast, fp16 and bf16 keep infinity.
    const bool saturates = spec.special_rule == SpecialRule::kSaturate;
    EXPECT_EQ(saturates, spec.element_bits == 8);
    const float top =
        saturates ? static_cast<float>(LayoutOf(spec.element_type).max_value) : infinity;
    EXPECT_EQ(y[2], top);
    EXPECT_EQ(y[3], -top);
    EXPECT_TRUE(IsNan(y[4]));
    std::vector<float> twice(y.size());
    ref::FakeQuantize(spec, y, twice, 1, 1, static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < y.size(); ++i) {
      if (IsNan(y[i])) continue;
      ASSERT_EQ(FloatBits(twice[i]), FloatBits(y[i])) << y[i];
    }
  }
}

TEST(FloatBits, ConversionsAreExact) {
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 65519) {
    const float x = std::bit_cast<float>(bits);
    EXPECT_EQ(ToDouble(x), static_cast<double>(x));
    EXPECT_EQ(FloatBits(RoundToFloat(-ToDouble(x))), bits | kFloatSignBit);
  }
  for (const double unit : {0x1p-149, 0x1p-140, 0x1p-127, 0x1p-126, 0x1p-125, 1.0, 0x1p100}) {
    for (const double x :
         {0.5, 1.5, 2.5, 3.499999, 1.0 + 0x1p-24, 1.0 + 0x3p-24, 0.49999999, 7.25}) {
      EXPECT_EQ(FloatBits(RoundToFloat(x * unit)), FloatBits(oracle::NearestFloat(x * unit)))
          << x << " " << unit;
    }
  }
  EXPECT_EQ(RoundToFloat(0x1.FFFFFEp127), std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToFloat(0x1.FFFFFFp127), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace bitpress::formats
