// Tests of the scales of blocks, each kind against its definition.
#include "formats/block_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "formats/float_bits.h"
#include "formats/packed_tensor.h"
#include "formats/reference.h"

namespace bitpress::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FormatSpec WithChoice(const char* name, ScaleChoice choice) {
  FormatSpec spec = FindFormat(name);
  spec.scale_choice = choice;
  return spec;
}

TEST(PowerOfTwoScales, CodesAreBiasedExponents) {
  for (const FormatSpec& spec : AllFormats()) {
    if (!spec.has_exponent_scales()) continue;
    SCOPED_TRACE(spec.name);
    EXPECT_EQ(WhyNoScales(spec), "");
    EXPECT_EQ(NanScaleCode(spec), 255u);
    EXPECT_EQ(LeastScale(spec), 0x1p-127);
    for (uint32_t code = 0; code < 255; ++code) {
      const double scale = DecodeScale(spec, code);
      EXPECT_EQ(scale, std::ldexp(1.0, static_cast<int>(code) - 127));
      EXPECT_EQ(EncodeScale(spec, scale), code);
    }
    EXPECT_TRUE(std::isnan(DecodeScale(spec, 255)));
  }
  const FormatSpec narrow = FindFormat("bfp(bits=9, block=8, exponent_bits=5)");
  EXPECT_EQ(LeastScale(narrow), 0x1p-15);
  EXPECT_EQ(EncodeScale(narrow, 0x1p15), 30u);
  for (const uint32_t code : {31u, 32u, 255u}) {
    EXPECT_TRUE(std::isnan(DecodeScale(narrow, code)));
  }
}

TEST(PowerOfTwoScales, CandidatesFollowTheChoice) {
  const auto scales = [](ScaleChoice choice, double amax) {
    return ref::CandidateScales(WithChoice("mxfp4_e2m1", choice), amax).scales;
  };
  // Elements reach 6; the largest power of two among them is 4.
  EXPECT_THAT(scales(ScaleChoice::kFloor, 7.0), ElementsAre(1.0));
  EXPECT_THAT(scales(ScaleChoice::kCeil, 7.0), ElementsAre(2.0));
  EXPECT_THAT(scales(ScaleChoice::kEven, 7.0), ElementsAre(2.0));
  EXPECT_THAT(scales(ScaleChoice::kEven, 6.9), ElementsAre(1.0));
  EXPECT_THAT(scales(ScaleChoice::kMse, 7.0), ElementsAre(0.5, 1.0, 2.0));
  EXPECT_EQ(ref::CandidateScales(WithChoice("mxfp4_e2m1", ScaleChoice::kMse), 70.0).error_unit, 16);
  // E8M0 ends at 2^-127.
  EXPECT_THAT(scales(ScaleChoice::kFloor, 0x1p-130), ElementsAre(0x1p-127));
}

TEST(PowerOfTwoScales, PackingTakesTheSmallestThatHoldsAllValues) {
  const FormatSpec spec = FindFormat("mxint8");
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{-2.0F, 0.5F}), ElementsAre(1.0));
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{2.0F, 0.5F}), ElementsAre(2.0));
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{0.0F}), ElementsAre(0x1p-127));
}

// --- NVFP4: E2M1 elements and E4M3 scales. The expectations are found by search in the lists of
// all numbers, which are written from the definitions of the types.

constexpr double kElements[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr size_t kNumScales = 126;  // codes 1 to 0x7E; 0x7F is NaN

double ScaleOfCode(size_t code) {
  const auto mantissa = static_cast<double>(code % 8);
  const int exponent = static_cast<int>(code / 8);
  return exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(8 + mantissa, exponent - 7 - 3);
}

// Returns the index of the entry of values[0, count) nearest to x, ties to the even index.
template <typename ValueOf>
size_t Nearest(double x, size_t count, const ValueOf& value_of) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    const double distance = std::fabs(x - value_of(i)), least = std::fabs(x - value_of(best));
    if (distance < least || (distance == least && i % 2 == 0)) best = i;
  }
  return best;
}

double ExpectedScale(float amax) {
  // Quotients are compared with midpoints as products, which are exact.
  const double x = static_cast<double>(amax);
  const size_t code = Nearest(x, kNumScales + 1, [](size_t i) { return 6 * ScaleOfCode(i); });
  return ScaleOfCode(std::max<size_t>(code, 1));
}

float ExpectedValue(float x, double scale) {
  const double magnitude = std::fabs(static_cast<double>(x));
  const size_t code =
      Nearest(magnitude, std::size(kElements), [&](size_t i) { return kElements[i] * scale; });
  return std::copysign(static_cast<float>(kElements[code] * scale), x);
}

TEST(Nvfp4, ScaleCodesAreE4M3) {
  const FormatSpec spec = FindFormat("nvfp4");
  EXPECT_EQ(spec.block_size, 16);
  EXPECT_EQ(spec.BitsPerElement(), 4.5);
  EXPECT_EQ(spec.scaled_maximum, 2688);
  EXPECT_EQ(LeastScale(spec), 0x1p-9);
  EXPECT_EQ(NanScaleCode(spec), 0x7Fu);
  const std::array<float, 256> table = ScaleTable(spec);
  for (uint32_t code = 0; code < 256; ++code) {
    if (code > kNumScales) {
      EXPECT_TRUE(std::isnan(DecodeScale(spec, code)) && std::isnan(table[code])) << code;
      continue;
    }
    EXPECT_EQ(DecodeScale(spec, code), ScaleOfCode(code));
    EXPECT_EQ(static_cast<double>(table[code]), ScaleOfCode(code));
    if (code > 0) {
      EXPECT_EQ(EncodeScale(spec, ScaleOfCode(code)), code);
    }
  }
}

// The largest magnitudes are all floats with 16 significant leading bits, and the neighbours of
// every tie.
TEST(Nvfp4, ScalesAreTheNearest) {
  const FormatSpec spec = FindFormat("nvfp4");
  const auto expect = [&](float amax) {
    const std::vector<float> block{0.0F, -amax};
    ASSERT_EQ(ref::ChooseScale(spec, block), ExpectedScale(amax)) << amax;
  };
  for (uint32_t bits = 0x00010000; bits < 0x7F800000; bits += 0x10000) expect(FloatFromBits(bits));
  for (size_t code = 1; code < kNumScales; ++code) {
    const double tie = 3 * (ScaleOfCode(code) + ScaleOfCode(code + 1));
    const uint32_t bits = FloatBits(static_cast<float>(tie));
    for (const uint32_t near : {bits - 1, bits, bits + 1}) expect(FloatFromBits(near));
  }
  expect(0x1p-149F);
  expect(std::numeric_limits<float>::max());
  EXPECT_EQ(ref::ChooseScale(spec, std::vector<float>(16)), 0x1p-9);
}

// For every scale, elements are tried in 64 steps between numbers, with their neighbours, so that
// every tie is among them.
TEST(Nvfp4, ElementsAreTheNearestAtEveryScale) {
  const FormatSpec spec = FindFormat("nvfp4");
  for (size_t code = 1; code <= kNumScales; ++code) {
    const double scale = ScaleOfCode(code);
    const auto largest = static_cast<float>(6 * scale);
    std::vector<float> x;
    for (int step = 0; step <= 6 * 64; ++step) {
      const uint32_t bits = FloatBits(static_cast<float>(step * scale / 64));
      for (const uint32_t near : {bits == 0 ? 0 : bits - 1, bits, bits + 1}) {
        const float value = FloatFromBits(near);
        if (value > largest) continue;
        x.push_back(step % 2 == 0 ? value : -value);
      }
    }
    for (size_t begin = 0; begin < x.size(); begin += 15) {
      std::vector<float> block{largest};
      for (size_t i = begin; i < std::min(x.size(), begin + 15); ++i) block.push_back(x[i]);
      std::vector<float> y(block.size());
      ref::FakeQuantizeBlock(spec, block, y);
      for (size_t i = 0; i < block.size(); ++i) {
        ASSERT_EQ(FloatBits(y[i]), FloatBits(ExpectedValue(block[i], scale)))
            << block[i] << " at scale " << scale;
      }
    }
  }
}

TEST(Nvfp4, SpecialValues) {
  const FormatSpec spec = FindFormat("nvfp4");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{6.0F, -0.0F, infinity, 0.3F, 1e-30F, -1e-30F};
  ref::FakeQuantizeBlock(spec, x, x);
  EXPECT_EQ(x, (std::vector<float>{6.0F, 0.0F, infinity, 0.5F, 0.0F, 0.0F}));
  EXPECT_TRUE(std::signbit(x[1]) && std::signbit(x[5]) && !std::signbit(x[4]));
  std::vector<float> large{1e30F, -3e3F, nan, 1.0F};  // the largest value is 6 * 448
  ref::FakeQuantizeBlock(spec, large, large);
  EXPECT_TRUE(std::isnan(large[2]));
  EXPECT_THAT(std::vector<float>({large[0], large[1], large[3]}), ElementsAre(2688, -2688, 0));
  EXPECT_EQ(ref::ScaleCode(spec, ref::QuantizeBlock(spec, std::vector<float>{nan})), 0x7Fu);
}

// Every scale with every number of codes: what is unpacked packs to the same values again, with the
// smallest scale that holds them.
TEST(Nvfp4, EveryScaleAndCodePacksToItself) {
  const FormatSpec spec = FindFormat("nvfp4");
  for (size_t code = 1; code <= kNumScales; ++code) {
    // Blocks whose largest element is each of the codes.
    for (size_t top = 0; top < std::size(kElements); ++top) {
      std::vector<float> y;
      for (size_t i = 0; i <= top; ++i) {
        y.push_back(static_cast<float>(kElements[i] * ScaleOfCode(code)));
        y.push_back(-y.back());
      }
      const auto count = static_cast<int64_t>(y.size());
      const PackedTensor packed = ref::PackTensor(spec, 1, count, 1, y);
      std::vector<float> found(y.size());
      ref::UnpackTensor(spec, 1, count, 1, packed.view(), found);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(FloatBits(found[i]), FloatBits(y[i]));
      ASSERT_LE(ScaleOfCode(packed.scales[0]), ScaleOfCode(code));
      ASSERT_GE(packed.scales[0], 1);
    }
  }
  // 3 and 1.5 at scale 1 are 6 and 3 at scale 0.5, whose code is smaller.
  EXPECT_EQ(ref::PackTensor(spec, 1, 2, 1, std::vector<float>{3.0F, 1.5F}).scales[0], 0x30);
  // No scale holds these two, as 7 is no element.
  EXPECT_THROW(ref::PackTensor(spec, 1, 2, 1, std::vector<float>{6.0F, 7.0F}), Error);
}

TEST(Nvfp4, QuantizedValuesHaveCodes) {
  const FormatSpec spec = FindFormat("nvfp4");
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 2000; ++round) {
    const float unit = std::ldexp(1.0F, static_cast<int>(random() % 40) - 25);
    std::vector<float> x(37);
    for (float& value : x) value = normal(random) * unit;
    ref::FakeQuantize(spec, x, x, 1, 37, 1);
    const PackedTensor packed = ref::PackTensor(spec, 1, 37, 1, x);
    std::vector<float> found(x.size());
    ref::UnpackTensor(spec, 1, 37, 1, packed.view(), found);
    ASSERT_EQ(found, x);
  }
}

TEST(Nvfp4, ScalesAreRoundedToNearestOnly) {
  EXPECT_THAT(WhyNoScales(WithChoice("nvfp4", ScaleChoice::kCeil)), HasSubstr("even, not ceil"));
  EXPECT_EQ(WhyNoScales(FindFormat("nvfp4")), "");
}

TEST(BlockScales, OthersAreRefused) {
  FormatSpec spec = FindFormat("mxint8");
  spec.scale_bits = 9;
  EXPECT_THAT(WhyNoScales(spec), HasSubstr("exponent_bits is 9"));
  spec.scale_type = ElementType::kInt8;
  EXPECT_THAT(WhyNoScales(spec), HasSubstr("INT8"));
  EXPECT_THROW(Validate(spec), Error);
}

}  // namespace
}  // namespace bitpress::formats
