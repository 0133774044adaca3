// Tests of packed tensors: the layout by hand, the tables against the reference, and all output of
// FakeQuantize, which must come back bit for bit.
#include "formats/packed_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "formats/block_scale.h"
#include "formats/pack.h"
#include "formats/reference.h"
#include "formats/test_block_cases.h"
#include "formats/test_packing_cases.h"

namespace bitpress::formats {
namespace {

using packing_cases::Describe;
using packing_cases::HasNoCode;
using testing_cases::BlockCases;
using testing_cases::kInfinity;
using testing_cases::kLargestFloat;
using testing_cases::SameBits;

// Packs and unpacks; the values must come back.
PackedTensor ExpectComesBack(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                             const std::vector<float>& y) {
  PackedTensor packed = ref::PackTensor(spec, outer, axis, inner, y);
  std::vector<float> found(y.size(), 12345.0f);
  ref::UnpackTensor(spec, outer, axis, inner, packed.view(), found);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_TRUE(FloatBits(found[i]) == FloatBits(y[i]))
        << Describe(spec) << ": element " << i << " is " << found[i] << ", not " << y[i];
    if (FloatBits(found[i]) != FloatBits(y[i])) break;
  }
  return packed;
}

void ExpectRefused(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                   const std::vector<float>& y, size_t index) {
  try {
    ref::PackTensor(spec, outer, axis, inner, y);
    FAIL() << Describe(spec) << ": not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::StartsWith(fmt::format("element {} (", index)))
        << Describe(spec);
  }
}

// --- Layout ---

TEST(PackedTensor, Mx6ByHand) {
  // Two columns of three: one block each, two sub-blocks, the second of one element. 5-bit codes
  // are sign and 4 magnitude bits, 1.0 is 8 steps of 2^-3.
  const FormatSpec spec = FindFormat("mx6");
  const std::vector<float> y = {1.5f, -0.25f, -0.125f, 0.0f, 0.4375f, -0.0f};
  const PackedTensor packed = ExpectComesBack(spec, 1, 3, 2, y);
  // Column 0 has exponent 0: 1.5 needs it, and 0.4375 has half the step. Column 1 has exponent -2,
  // and its zeros shift.
  EXPECT_EQ(packed.scales, (std::vector<uint8_t>{127, 125}));
  EXPECT_EQ(packed.shifts, (std::vector<uint8_t>{0b1100}));
  std::vector<uint8_t> codes(6);
  UnpackCodes(packed.codes, 5, codes);
  EXPECT_EQ(codes, (std::vector<uint8_t>{12, 16 + 8, 16 + 1, 0, 7, 16}));
  EXPECT_EQ(packed.codes.size(), 5u);
}

TEST(PackedTensor, TwoPlanesByHand) {
  const FormatSpec spec = FindFormat("bfp(bits=20, block=4)");  // 12 bits: 10 fraction bits
  const std::vector<float> y = {1.0f + 0x1p-10f, -0x3p-10f, -0.0f, -1.5f};
  const PackedTensor packed = ExpectComesBack(spec, 1, 4, 1, y);
  EXPECT_EQ(packed.scales, (std::vector<uint8_t>{127}));
  // 0x401, 0x803, 0x800, 0xE00
  EXPECT_EQ(packed.codes, (std::vector<uint8_t>{0x40, 0x80, 0x80, 0xE0}));
  EXPECT_EQ(packed.low_codes, (std::vector<uint8_t>{0x31, 0x00}));
}

TEST(PackedTensor, FloatsByHand) {
  const std::vector<float> y = {1.0f, -2.0f, -0.0f};
  EXPECT_EQ(ExpectComesBack(FindFormat("fp16"), 3, 1, 1, y).codes,
            (std::vector<uint8_t>{0x00, 0x3C, 0x00, 0xC0, 0x00, 0x80}));
  EXPECT_EQ(ExpectComesBack(FindFormat("bf16"), 1, 3, 1, y).codes,
            (std::vector<uint8_t>{0x80, 0x3F, 0x00, 0xC0, 0x00, 0x80}));
  EXPECT_EQ(ExpectComesBack(FindFormat("fp8_e4m3"), 1, 1, 3, y).codes,
            (std::vector<uint8_t>{0x38, 0xC0, 0x80}));
}

TEST(PackedTensor, FormatsHaveThePartsThatTakeBytes) {
  using enum PackedPart;
  EXPECT_THAT(PartsOf(FindFormat("bf16")), testing::ElementsAre(kCodes));
  EXPECT_THAT(PartsOf(FindFormat("mxint8")), testing::ElementsAre(kCodes, kScales));
  EXPECT_THAT(PartsOf(FindFormat("mx6")), testing::ElementsAre(kCodes, kScales, kShifts));
  for (const FormatSpec& spec : packing_cases::Specs()) {
    PackedSizes sizes = SizesOf(spec, 3, 64, 1);
    std::vector<PackedPart> parts;
    for (const PackedPart part : {kCodes, kLowCodes, kScales, kShifts}) {
      if (sizes[part] > 0) parts.push_back(part);
    }
    EXPECT_EQ(PartsOf(spec), parts) << Describe(spec);
  }
}

TEST(PackedTensor, SizesOfEveryPart) {
  EXPECT_EQ(SizesOf(FindFormat("mx6"), 2, 17, 3), (PackedSizes{65, 0, 12, 7}));
  EXPECT_EQ(SizesOf(FindFormat("mxfp4_e2m1"), 3, 33, 1), (PackedSizes{50, 0, 6, 0}));
  EXPECT_EQ(SizesOf(FindFormat("bfp(bits=20, block=32)"), 1, 5, 1), (PackedSizes{5, 3, 1, 0}));
  EXPECT_EQ(SizesOf(FindFormat("fp16"), 2, 3, 4), (PackedSizes{48, 0, 0, 0}));
  for (const FormatSpec& spec : packing_cases::Specs()) {
    EXPECT_EQ(SizesOf(spec, 0, 5, 5).total() + SizesOf(spec, 5, 0, 5).total(), 0u);
    // A large tensor takes the bits that the table of formats promises.
    const double bits = static_cast<double>(SizesOf(spec, 1, 5040000, 1).total()) * 8 / 5040000;
    const double scale_padding = spec.is_blocked() ? (8.0 - spec.scale_bits) / spec.block_size : 0;
    EXPECT_NEAR(bits, spec.BitsPerElement() + scale_padding, 1e-3) << Describe(spec);
  }
}

TEST(PackedTensor, ImpossibleShapesAndFormatsAreRefused) {
  const FormatSpec mx9 = FindFormat("mx9");
  EXPECT_THROW(SizesOf(mx9, -1, 2, 3), Error);
  EXPECT_THROW(SizesOf(mx9, int64_t{1} << 31, int64_t{1} << 31, 2), Error);
  EXPECT_THROW(SizesOf(FindFormat("fp16"), int64_t{1} << 62, 1, 1), Error);
  EXPECT_EQ(SizesOf(mx9, int64_t{1} << 62, 0, int64_t{1} << 62).total(), 0u);
  for (const char* name : {"int8", "uint4", "bfp(bits=25, block=32)"}) {
    EXPECT_NE(WhyNotPackable(FindFormat(name)), "") << name;
    EXPECT_THROW(SizesOf(FindFormat(name), 1, 1, 1), Error) << name;
    EXPECT_THROW(ElementTable(FindFormat(name)), Error) << name;
  }
  EXPECT_EQ(WhyNotPackable(FindFormat("bfp(bits=24, block=32)")), "");
  EXPECT_THROW(ElementTable(FindFormat("bf16")), Error);
  EXPECT_THROW(ScaleTable(FindFormat("fp8_e4m3")), Error);
  const std::vector<float> y(32);
  EXPECT_THROW(ref::PackTensor(mx9, 1, 31, 1, y), Error);
  PackedTensor packed = ref::PackTensor(mx9, 1, 32, 1, y);
  std::vector<float> found(32);
  packed.shifts.pop_back();
  EXPECT_THROW(ref::UnpackTensor(mx9, 1, 32, 1, packed.view(), found), Error);
}

// --- The tables ---

// Element times scale, one float32 product, is the reference's value of a code, for every code and
// exponent, and for every shift of the exponents at both ends and of some others. If the reference
// saturates, the product is infinite. Of codes of two planes those around all ones and every
// leading bit are tried.
TEST(WholePackedTensor, OneProductIsTheReferencesValue) {
  for (const FormatSpec& spec : packing_cases::Specs()) {
    if (!spec.has_exponent_scales()) continue;
    const std::vector<float> elements = ElementTable(spec);
    const std::array<float, 256> scales = ScaleTable(spec);
    const int low_bits = LowCodePlaneBits(spec);
    ASSERT_EQ(elements.size(), size_t{1} << CodePlaneBits(spec));
    const BlockRange range = RangeOf(spec);
    const int num_exponents = (1 << spec.scale_bits) - 1;
    const int max_shift = spec.sub_block_size > 0 ? (1 << spec.sub_block_shift_bits) - 1 : 0;
    for (int scale_code = 0; scale_code < 256; ++scale_code) {
      const float scale = scales[static_cast<size_t>(scale_code)];
      ASSERT_EQ(std::isnan(scale), scale_code >= num_exponents) << Describe(spec);
      if (scale_code >= num_exponents) continue;
      ASSERT_GT(scale, 0.0f);
      for (int shift = 0; shift <= max_shift; ++shift) {
        const int exponent = scale_code + range.min_shared_exponent;
        if (shift > 0 && scale_code > 40 && scale_code < 248 && scale_code % 16 != 0) continue;
        // PackTensor shifts below this only where all codes are zero.
        if (shift > 0 && exponent - shift < -127) continue;
        const float factor = scale * std::ldexp(1.0f, -shift);
        ASSERT_GT(factor, 0.0f) << Describe(spec);
        for (uint32_t code = 0; code < 1u << spec.element_bits; ++code) {
          const uint32_t low = code & ((1u << low_bits) - 1);
          if (low > 2 && low + 2 < 1u << low_bits && (low & (low - 1)) != 0) continue;
          ref::BlockCodes block;
          block.scale = std::ldexp(1.0, exponent);
          block.codes = {code};
          if (spec.sub_block_size > 0) block.shifts = {shift};
          float expected = 0;
          ref::DequantizeBlock(spec, block, {&expected, 1});
          const float top = elements[code >> low_bits];
          const float sign = std::signbit(top) ? -1.0f : 1.0f;
          const float element = low_bits > 0 ? top + sign * static_cast<float>(low) : top;
          const float found = element * factor;
          if (std::fabs(expected) == kLargestFloat) {
            ASSERT_EQ(found, std::copysign(kInfinity, expected)) << Describe(spec);
          } else {
            ASSERT_TRUE(SameBits(found, expected))
                << fmt::format("{}: code {:#x} exponent {} shift {}: {} instead of {}",
                               Describe(spec), code, exponent, shift, found, expected);
          }
        }
      }
    }
  }
}

// --- Values ---

// Every single value of a format, alone and beside the largest of its block, packs to itself.
TEST(PackedTensor, EveryValueOfEveryCodeComesBack) {
  for (const FormatSpec& spec : packing_cases::Specs()) {
    if (!spec.has_exponent_scales() || spec.element_bits > 8) continue;
    const std::vector<float> elements = ElementTable(spec);
    const std::array<float, 256> scales = ScaleTable(spec);
    for (int scale_code = 0; scale_code < (1 << spec.scale_bits) - 1; ++scale_code) {
      // Exponents at both ends of float32, and some in between.
      if (scale_code > 40 && scale_code < 240 && scale_code % 5 != 0) continue;
      std::vector<float> y;
      for (const float element : elements) {
        const float value = element * scales[static_cast<size_t>(scale_code)];
        if (!HasNoCode(spec, value)) y.push_back(value);
      }
      ExpectComesBack(spec, static_cast<int64_t>(y.size()), 1, 1, y);
      // The blocks have the exponent of this code. Both orders of the axes are tried.
      const int64_t count = static_cast<int64_t>(y.size());
      ExpectComesBack(spec, 1, count, 1, y);
      ExpectComesBack(spec, 1, 1, count, y);
    }
  }
}

// Tries the proof in docs/formats.md with blocks whose largest magnitude lies at the edges of every
// exponent, under every scale choice and rounding.
TEST(PackedTensor, WholeRangeOfWhatFakeQuantizeGivesComesBack) {
  for (const FormatSpec& base : packing_cases::Specs()) {
    if (!base.is_blocked()) continue;
    BlockCases cases(base, 11);
    const size_t length = static_cast<size_t>(std::min(base.block_size, 32));
    // Formats of the table are tried at more exponents.
    const bool is_named = base.name.find('(') == std::string::npos;
    std::vector<float> x;
    for (int exponent = -149; exponent <= 127; exponent += !is_named ? 7
                                                           : exponent < -117 || exponent > 117
                                                               ? 1
                                                               : 5) {
      for (const float amax : cases.Edges(exponent)) {
        const std::vector<float> block = cases.Fill(amax, length);
        x.insert(x.end(), block.begin(), block.end());
      }
    }
    const int64_t num_blocks = static_cast<int64_t>(x.size() / length);
    const int64_t axis = static_cast<int64_t>(length);
    for (const ScaleChoice choice : testing_cases::ScaleChoices()) {
      for (const RoundingMode rounding : {RoundingMode::kHalfToEven, RoundingMode::kHalfUp}) {
        if (base.has_float_elements() && rounding != RoundingMode::kHalfToEven) continue;
        // Rounding differs in ties alone, which have a code either way.
        if (rounding == RoundingMode::kHalfUp && choice != ScaleChoice::kFloor) continue;
        FormatSpec spec = base;
        spec.scale_choice = choice;
        spec.rounding = rounding;
        std::vector<float> y(x.size());
        ref::FakeQuantize(spec, x, y, num_blocks, axis, 1);
        // A block with a value that float32 saturated is refused, with the index of that value.
        std::vector<float> kept;
        for (size_t first = 0; first < y.size(); first += length) {
          const std::vector<float> block(y.begin() + static_cast<std::ptrdiff_t>(first),
                                         y.begin() + static_cast<std::ptrdiff_t>(first + length));
          const auto bad = std::find_if(block.begin(), block.end(),
                                        [&](float value) { return HasNoCode(spec, value); });
          if (bad == block.end()) {
            kept.insert(kept.end(), block.begin(), block.end());
          } else {
            ASSERT_GT(std::fabs(x[first]) + std::fabs(*bad), 0x1p120f) << Describe(spec);
            try {
              ref::PackTensor(spec, 1, axis, 1, block);
              ADD_FAILURE() << Describe(spec) << ": not refused";
            } catch (const Error&) {
            }
          }
        }
        ASSERT_GT(kept.size(), x.size() * 9 / 10);
        ExpectComesBack(spec, static_cast<int64_t>(kept.size() / length), axis, 1, kept);
        if (HasFailure()) return;
      }
    }
  }
}

// Equal values give equal bytes: the exponent is the smallest that holds the block, whatever scale
// choice the values were quantized with.
TEST(PackedTensor, ScalesAreTheSmallestPossible) {
  std::mt19937 random(5);
  for (const FormatSpec& spec : packing_cases::Specs()) {
    if (!spec.has_exponent_scales()) continue;
    const std::vector<float> y = packing_cases::Quantized(spec, 40, 32, 1, true, random);
    const PackedTensor packed = ExpectComesBack(spec, 40, 32, 1, y);
    const int64_t block = std::min(spec.block_size, 32);
    const int64_t blocks = (32 + block - 1) / block;
    const BlockRange range = RangeOf(spec);
    for (int64_t b = 0; b < 40 * blocks; ++b) {
      const int code = packed.scales[static_cast<size_t>(b)];
      if (code == 0) continue;
      // Some value would saturate with one exponent less.
      const double half = std::ldexp(1.0, code + range.min_shared_exponent - 1);
      bool saturates = false;
      for (int64_t k = b % blocks * block; k < std::min<int64_t>(32, (b % blocks + 1) * block);
           ++k) {
        const double value = static_cast<double>(y[static_cast<size_t>(b / blocks * 32 + k)]);
        const double least = spec.element_type == ElementType::kInt8 ? -2.0 : -range.max_value;
        saturates = saturates || value > range.max_value * half || value < least * half;
      }
      ASSERT_TRUE(saturates) << Describe(spec) << " block " << b;
    }
  }
}

// MXINT8 reaches -2 but not 2: the exponent that ScaleChoice::kCeil gives for 2 could not hold the
// odd codes beside it.
TEST(PackedTensor, TheLowestIntegerKeepsItsGrid) {
  const FormatSpec spec = FindFormat("mxint8");
  const std::vector<float> y = {-2.0f, 0x1p-6f, 127 * 0x1p-6f};
  const PackedTensor packed = ExpectComesBack(spec, 1, 3, 1, y);
  EXPECT_EQ(packed.scales[0], 127);
  EXPECT_EQ(packed.codes, (std::vector<uint8_t>{0x80, 1, 127}));
}

TEST(PackedTensor, ShapesOfEveryKindComeBack) {
  std::mt19937 random(7);
  const int64_t shapes[][3] = {{1, 1, 1},  {3, 5, 1},  {7, 33, 1}, {1, 100, 1}, {2, 3, 7},
                               {1, 31, 5}, {3, 40, 3}, {5, 1, 9},  {0, 4, 4},   {4, 0, 4}};
  for (const FormatSpec& spec : packing_cases::Specs()) {
    for (const auto& [outer, axis, inner] : shapes) {
      for (const bool all_exponents : {false, true}) {
        ExpectComesBack(spec, outer, axis, inner,
                        packing_cases::Quantized(spec, outer, axis, inner, all_exponents, random));
      }
    }
  }
}

TEST(PackedTensor, AllZeroBlocks) {
  for (const FormatSpec& spec : packing_cases::Specs()) {
    const PackedTensor zeros = ExpectComesBack(spec, 2, 33, 1, std::vector<float>(66));
    const uint32_t least = spec.is_blocked() ? EncodeScale(spec, LeastScale(spec)) : 0;
    EXPECT_THAT(zeros.scales, testing::Each(least)) << Describe(spec);
    if (spec.element_type == ElementType::kInt8) continue;
    ExpectComesBack(spec, 2, 33, 1, std::vector<float>(66, -0.0f));
  }
}

// --- What is refused ---

TEST(PackedTensor, ValuesWithoutACodeAreRefusedWithTheirIndex) {
  std::mt19937 random(9);
  const float quiet_nan = std::numeric_limits<float>::quiet_NaN();
  for (const FormatSpec& spec : packing_cases::Specs()) {
    for (const int64_t inner : {1, 3}) {
      const std::vector<float> y = packing_cases::Quantized(spec, 2, 40, inner, false, random);
      for (const float bad : {quiet_nan, kInfinity, -kInfinity, kLargestFloat, 0x1p-149f}) {
        if (bad == 0x1p-149f && spec.name == "bf16") continue;
        std::vector<float> broken = y;
        const size_t index = broken.size() * 2 / 3;
        broken[index] = bad;
        broken[broken.size() - 1] = quiet_nan;
        if (bad == kLargestFloat && spec.is_blocked()) {
          // Other elements of its block lose their grid and come first.
          EXPECT_THROW(ref::PackTensor(spec, 2, 40, inner, broken), Error) << Describe(spec);
        } else if (bad == 0x1p-149f) {
          // The value is refused unless its whole block is that small.
          broken[index - static_cast<size_t>(index % 40 == 0 ? 0 : inner)] = 1.0f;
          EXPECT_THROW(ref::PackTensor(spec, 2, 40, inner, broken), Error) << Describe(spec);
        } else {
          ExpectRefused(spec, 2, 40, inner, broken, index);
        }
      }
    }
  }
  ExpectRefused(FindFormat("mxint8"), 1, 4, 1, {1.0f, 0.0f, -0.0f, 0.5f}, 2);
  ExpectRefused(FindFormat("mx6"), 1, 3, 1, {1.0f, 0.03f, 0.01f}, 1);
  // bf16 has float32's subnormals down to 2^-133.
  ExpectRefused(FindFormat("bf16"), 1, 2, 1, {0x1p-133f, 0x1p-134f}, 1);
}

// Quark's MX operators do not limit the shared exponent: blocks below 2^(emax - 127) may lie on a
// grid that E8M0 has no scale for.
TEST(PackedTensor, QuarksUnlimitedExponentsFailOnlyBelowTheScales) {
  for (const char* type : {"fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"}) {
    const FormatSpec spec = QuarkSpec(QuarkMxAttributes{type, 4, 2});
    const int least = RangeOf(spec).max_exponent - 127;
    const float grid = std::ldexp(1.0f, -RangeOf(spec).fraction_bits);
    for (int exponent = -140; exponent < 120; ++exponent) {
      std::vector<float> y = {1.0f, 1.0f + grid, -1.0f, 1.0f};
      for (float& value : y) value = std::ldexp(value, exponent);
      ref::FakeQuantize(spec, y, y, 1, 4, 1);
      const bool is_normal_element =
          !spec.has_float_elements() ||
          exponent >= least - RangeOf(spec).max_exponent + 1 - LayoutOf(spec.element_type).bias;
      if (exponent >= least) {
        ExpectComesBack(spec, 1, 4, 1, y);
      } else if (!is_normal_element && y[1] != 0) {
        EXPECT_THROW(ref::PackTensor(spec, 1, 4, 1, y), Error) << type << " " << exponent;
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::formats
