// Tests of the kernels against the scalar reference: every kernel of the list, on every instruction
// set this processor has.
#include "kernels/fake_quantize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "formats/float_bits.h"
#include "formats/quark.h"
#include "formats/reference.h"
#include "formats/test_packing_cases.h"
#include "kernels/column_codes.h"
#include "kernels/half.h"
#include "kernels/test_shapes.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

using formats::FloatBits;
using formats::FloatFromBits;
using formats::FormatSpec;
using formats::RoundingMode;
using formats::ScaleChoice;
using formats::packing_cases::Describe;

// Returns every format with every option that changes its arithmetic.
std::vector<FormatSpec> AllSpecs() {
  std::vector<FormatSpec> specs;
  std::vector<FormatSpec> bases(formats::AllFormats().begin(), formats::AllFormats().end());
  for (const char* name : {"bfp(bits=12, block=32)", "bfp(bits=31, block=16)",
                           "bfp(bits=10, block=4)", "bfp(bits=13, block=20)",
                           "bfp(bits=9, block=8, exponent_bits=5)", "bfp(bits=13, block=64)"}) {
    bases.push_back(formats::FindFormat(name));
  }
  for (const FormatSpec& base : bases) {
    if (base.is_integer()) continue;
    if (!base.is_blocked()) {
      specs.push_back(base);
      continue;
    }
    for (const ScaleChoice choice :
         {ScaleChoice::kFloor, ScaleChoice::kCeil, ScaleChoice::kEven, ScaleChoice::kMse}) {
      for (const RoundingMode rounding :
           {RoundingMode::kHalfToEven, RoundingMode::kHalfAwayFromZero, RoundingMode::kHalfUp}) {
        if (base.has_float_elements() && rounding != RoundingMode::kHalfToEven) continue;
        if (!base.has_exponent_scales() && choice != base.scale_choice) continue;
        FormatSpec spec = base;
        spec.scale_choice = choice;
        spec.rounding = rounding;
        specs.push_back(spec);
      }
    }
  }
  for (const int64_t mode : {0, 1, 2}) {
    for (const char* type : {"fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"}) {
      specs.push_back(formats::QuarkSpec(formats::QuarkMxAttributes{type, 16, mode}));
    }
    specs.push_back(formats::QuarkSpec(formats::QuarkBfpAttributes{"to_bfp", 16, 8, mode}));
    specs.push_back(
        formats::QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 13, 16, mode, 2, 1}));
    specs.push_back(
        formats::QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 16, 16, mode, 4, 2}));
    specs.push_back(
        formats::QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 11, 12, mode, 3, 2}));
  }
  return specs;
}

// Returns values that hit ties, edges of exponents, saturation and zeros of both signs. With
// `special` there are also NaN, infinities, subnormals and magnitudes at the ends of float32.
std::vector<float> TestValues(size_t count, bool special, std::mt19937& random) {
  std::vector<float> values(count);
  int base = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % 37 == 0) base = static_cast<int>(random() % 40) - 20;
    const uint32_t draw = static_cast<uint32_t>(random());
    const double sign = draw & 1 ? -1.0 : 1.0;
    const int small = static_cast<int>(draw >> 8 & 7);
    switch (draw >> 1 & 7) {
      case 0:
        values[i] = FloatFromBits(draw & formats::kFloatSignBit);  // a zero
        break;
      case 1:  // a power of two
        values[i] = static_cast<float>(std::ldexp(sign, base - small));
        break;
      case 2:  // few mantissa bits: ties of every format
        values[i] = static_cast<float>(
            std::ldexp(sign * static_cast<double>(draw >> 12 & 511), base - small - 8));
        break;
      case 3:  // just below or above a power of two
        values[i] = FloatFromBits(FloatBits(static_cast<float>(std::ldexp(sign, base))) +
                                  (draw >> 4 & 3) - 2);
        break;
      default:
        values[i] = static_cast<float>(sign * std::ldexp(static_cast<double>(random()), base - 32));
    }
    if (special && draw >> 24 < 8 && random() % 4 == 0) {
      constexpr uint32_t kSpecials[] = {0x7F800000u, 0xFF800000u, 0x7FC00001u, 0x7F7FFFFFu,
                                        0x00000001u, 0x807FFFFFu, 0x00800000u, 0xFF000000u};
      values[i] = FloatFromBits(kSpecials[draw >> 24]);
    }
  }
  // There are also whole blocks of zeros and of tiny values.
  for (size_t i = 0; i + 64 < count; i += 512) {
    for (size_t k = 0; k < 64; ++k) values[i + k] *= special ? 1e-30f : 0.0f;
  }
  return values;
}

// Compares what kernels give on every instruction set with the reference, on misaligned data with
// guards on both sides, and in place.
void ExpectTheReference(const FormatSpec& spec, const Shape& shape, bool special,
                        std::mt19937& random) {
  SCOPED_TRACE(fmt::format("{} shape {} special {}", Describe(spec), shape.name(), special));
  constexpr size_t kMargin = 17;
  constexpr float kUntouched = 12345.0f;
  const std::vector<float> x = TestValues(shape.count(), special, random);
  std::vector<float> expected(x.size());
  formats::ref::FakeQuantize(spec, x, expected, shape.outer, shape.axis, shape.inner);
  const FakeQuantizer quantizer(spec, shape.outer, shape.axis, shape.inner);
  OnEveryTarget([&] {
    std::vector<float> out(x.size() + 2 * kMargin, kUntouched);
    quantizer.Run(x.data(), out.data() + kMargin);
    ASSERT_TRUE(SameValues(expected, out.data() + kMargin));
    for (size_t g = 0; g < kMargin; ++g) {
      ASSERT_EQ(out[g], kUntouched) << "wrote in front";
      ASSERT_EQ(out[x.size() + kMargin + g], kUntouched) << "wrote behind";
    }
    std::vector<float> in_place = x;
    quantizer.Run(in_place.data(), in_place.data());
    ASSERT_TRUE(SameValues(expected, in_place.data())) << "in place";
  });
}

// Every option of every format goes through all loops over rows and over columns: those over
// several vectors, over one and over part of one, with whole blocks and short ones.
TEST(FakeQuantize, EqualsTheReference) {
  std::mt19937 random(1);
  for (const FormatSpec& spec : AllSpecs()) {
    for (const Shape& shape :
         {Shape{1, 1, 1}, {3, 5, 1}, {7, 33, 1}, {1, 1100, 1}, {2, 3, 7}, {1, 40, 85}}) {
      for (const bool special : {false, true}) ExpectTheReference(spec, shape, special, random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// The same with axis lengths around the blocks, and inner lengths around the vectors.
TEST(WholeFakeQuantize, EqualsTheReferenceInManyShapes) {
  std::mt19937 random(2);
  for (const FormatSpec& spec : AllSpecs()) {
    for (const Shape& shape : {Shape{1, 32, 1},
                               {5, 64, 1},
                               {2, 200, 1},
                               {5, 100, 1},
                               {1, 32, 2},
                               {1, 31, 15},
                               {1, 33, 16},
                               {2, 40, 17},
                               {1, 64, 49},
                               {1, 16, 63},
                               {1, 70, 64},
                               {1, 32, 65},
                               {1, 8, 196},
                               {1, 33, 130}}) {
      for (const bool special : {false, true}) ExpectTheReference(spec, shape, special, random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class FakeQuantizeTest : public TargetTest {};

// The list of kernels is complete: each one runs, and says itself that it was compiled for the
// forced target.
TEST_P(FakeQuantizeTest, EveryListedKernelRunsOnTheForcedTarget) {
  std::set<std::string> run;
  for (const FormatSpec& spec : AllSpecs()) {
    for (const int64_t inner : {1, 8}) {
      std::vector<float> x(static_cast<size_t>(64 * inner), 1.0f);
      FakeQuantizer(spec, 1, 64, inner).Run(x.data(), x.data());
      EXPECT_EQ(LastRun().target, CurrentVectors());
      run.emplace(LastRun().kernel);
    }
  }
  std::set<std::string> listed{"FloatElements"};
#define BITPRESS_BLOCKS(name, is_for) listed.insert({#name "Columns", #name "Rows"});
#include "kernels/kernels.inc"
#undef BITPRESS_BLOCKS
  EXPECT_EQ(run, listed);
}

TEST(FakeQuantize, TasksInAnyOrderGiveTheSame) {
  std::mt19937 random(4);
  for (const char* name : {"mx9", "mxfp8_e4m3", "fp16"}) {
    for (const Shape& shape : {Shape{2, 40, 600}, Shape{300, 200, 1}, Shape{1, 1 << 16, 1}}) {
      const std::vector<float> x = TestValues(shape.count(), true, random);
      const FakeQuantizer quantizer(formats::FindFormat(name), shape.outer, shape.axis,
                                    shape.inner);
      ASSERT_GT(quantizer.num_tasks(), 2u);
      std::vector<float> expected(x.size()), found(x.size());
      formats::ref::FakeQuantize(quantizer.spec(), x, expected, shape.outer, shape.axis,
                                 shape.inner);
      OnEveryTarget([&] {
        for (size_t task = quantizer.num_tasks(); task-- > 0;) {
          quantizer.RunTask(task, x.data(), found.data());
        }
        ASSERT_TRUE(SameValues(expected, found.data())) << name << shape.name();
      });
    }
  }
}

TEST_P(FakeQuantizeTest, HalfFloatsAreComputedInFloat) {
  std::mt19937 random(3);
  for (const char* name : {"mx6", "mxint8", "mxfp8_e5m2", "bf16", "bfp16"}) {
    for (const Shape& shape : {Shape{2, 40, 50}, Shape{9, 33, 1}, Shape{1, 65, 1}}) {
      const size_t count = shape.count();
      std::vector<uint16_t> x(count), found(count), expected(count);
      for (uint16_t& value : x) value = static_cast<uint16_t>(random());
      std::vector<float> wide(count);
      HalfToFloat(x, wide.data());
      const FakeQuantizer quantizer(formats::FindFormat(name), shape.outer, shape.axis,
                                    shape.inner);
      for (size_t task = 0; task < quantizer.num_tasks(); ++task)
        quantizer.RunTaskHalf(task, x.data(), found.data());
      formats::ref::FakeQuantize(quantizer.spec(), wide, wide, shape.outer, shape.axis,
                                 shape.inner);
      FloatToHalf(wide, expected.data());
      EXPECT_EQ(found, expected) << name;
    }
  }
}

#if defined(__x86_64__)
// ONNX Runtime may run its threads with denormals as zero and results flushed.
TEST_P(FakeQuantizeTest, FlushingDenormalsChangesNothing) {
  std::mt19937 random(3);
  for (const FormatSpec& spec : AllSpecs()) {
    for (const Shape& shape : {Shape{2, 33, 20}, Shape{3, 50, 1}}) {
      const size_t count = shape.count();
      const std::vector<float> x = TestValues(count, true, random);
      std::vector<float> expected(count), found(count);
      const FakeQuantizer quantizer(spec, shape.outer, shape.axis, shape.inner);
      quantizer.Run(x.data(), expected.data());
      const unsigned old = _mm_getcsr();
      _mm_setcsr(old | 0x8040u);
      quantizer.Run(x.data(), found.data());
      _mm_setcsr(old);
      ASSERT_TRUE(SameValues(expected, found.data())) << Describe(spec);
    }
  }
}
#endif

// The numbers at the ends of what tiles take: their bits, and whether tiles do not take them once
// they are rounded to bfloat16.
struct EndOfTiles {
  uint32_t bits;
  bool is_far;
};
constexpr uint32_t kLeastInTiles = uint32_t{kLeastTileColumn - 10} << 23U;
constexpr uint32_t kLargestInTiles = (uint32_t{kLargestTileColumn} << 23U) + 0x7F0000U;
constexpr EndOfTiles kEndsOfTiles[] = {
    {0, false},
    {1, false},  // becomes zero
    {0x10000, true},
    {kLeastInTiles - 0x8001, true},
    {kLeastInTiles - 1, false},  // becomes the least
    {kLeastInTiles, false},
    {kLargestInTiles, false},
    {kLargestInTiles + 0x7FFF, false},  // becomes the largest
    {kLargestInTiles + 0x8000, true},
    {0x7F800000, true},   // infinity
    {0x7F800001, false},  // NaN, whose bits are all in the lower half
};

TEST_P(FakeQuantizeTest, Bfloat16InTilesSaysWhatIsFar) {
  constexpr size_t kRows = 32, kColumns = 19;
  const FormatSpec spec = formats::FindFormat("bf16");
  const FakeQuantizer quantizer(spec, 1, kRows, kColumns);
  for (const ColumnForm form : {ColumnForm::kTiles, ColumnForm::kPairs}) {
    for (const EndOfTiles& end : kEndsOfTiles) {
      for (const size_t place : {size_t{0}, 5 * kColumns + 3, 31 * kColumns + 18}) {
        SCOPED_TRACE(fmt::format("{:x} at {}", end.bits, place));
        std::vector<float> x(kRows * kColumns, -1.50390625F);  // a tie
        x[place] = FloatFromBits(end.bits | 0x80000000U);
        std::vector<float> rounded = x;
        formats::ref::FakeQuantize(spec, x, rounded, 1, kRows, kColumns);
        std::vector<uint8_t> codes(kRows / 2 * 4 * 32), units(32);
        std::atomic<bool> is_far{false};
        ColumnCodes out{kRows / 2, form, 0, codes.data(), 4 * 32, units.data(), &is_far};
        quantizer.RunColumnCodes(x.data(), kRows, kColumns, kColumns, out);
        EXPECT_EQ(is_far, end.is_far);
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t half = HalfOf(form, i / kColumns);
          uint16_t code;
          std::memcpy(&code, &codes[half / 2 * 128 + i % kColumns * 4 + half % 2 * 2], 2);
          if (formats::IsNan(rounded[i])) {
            EXPECT_GT(code & 0x7FFFU, 0x7F80U);
          } else {
            EXPECT_EQ(code, FloatBits(rounded[i]) >> 16U) << i;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FakeQuantizeTest, testing::ValuesIn(SupportedTargets()),
                         NameOfTargetParam);

TEST(CpuTarget, UnknownNamesAreRefused) {
  EXPECT_THROW(UseTarget("AVX9"), Error);
  UseTarget("");
  EXPECT_EQ(CurrentTarget(), SupportedTargets().front());
}

TEST(CpuTarget, AmxAndBf16HaveTheVectorsOfAvx3) {
  OnEveryTarget([] {
    const bool is_avx3 = CurrentTarget() == "AMX" || CurrentTarget() == "AVX3_BF16";
    EXPECT_EQ(CurrentVectors(), is_avx3 ? "AVX3" : CurrentTarget());
  });
  EXPECT_TRUE(!AreTilesRefused() || SupportedTargets().front() == "AVX3");
}

TEST(Half, AllHalvesComeBack) {
  std::vector<uint16_t> halves(1 << 16), back(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(halves.size());
  HalfToFloat(halves, wide.data());
  FloatToHalf(wide, back.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const bool nan = (halves[i] & 0x7FFFu) > 0x7C00u;
    if (nan) {
      EXPECT_TRUE(formats::IsNan(wide[i]));
      EXPECT_GT(back[i] & 0x7FFFu, 0x7C00u);
    } else {
      EXPECT_EQ(back[i], halves[i]);
      EXPECT_EQ(static_cast<double>(wide[i]),
                formats::ref::DecodeFloat(halves[i], formats::ElementType::kFloat16));
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  // Inputs lie around every half and every midpoint. The reference saturates if a cast gives
  // infinity.
  for (uint32_t half = 0; half < 0x7C00u; ++half) {
    const double low = formats::ref::DecodeFloat(half, formats::ElementType::kFloat16);
    const double high = half + 1 < 0x7C00u
                            ? formats::ref::DecodeFloat(half + 1, formats::ElementType::kFloat16)
                            : 65536.0;
    const float middle = static_cast<float>((low + high) / 2);
    for (const float x :
         {FloatFromBits(FloatBits(middle) - 1), middle, FloatFromBits(FloatBits(middle) + 1)}) {
      uint16_t found = 0;
      FloatToHalf({&x, 1}, &found);
      if (half + 1 == 0x7C00u && x >= middle) {
        EXPECT_EQ(found, 0x7C00u);
      } else {
        EXPECT_EQ(found,
                  formats::ref::EncodeFloat(static_cast<double>(x), formats::ElementType::kFloat16))
            << x;
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::kernels
