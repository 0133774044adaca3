// The vector kernels of integer codes against the reference, on every instruction set.
#include "kernels/integer_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "formats/float_bits.h"
#include "formats/reference.h"
#include "kernels/fake_quantize.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

using formats::CodeRange;
using formats::ElementType;
using formats::FloatBits;
using formats::FloatFromBits;
using formats::QParams;

const std::vector<CodeRange>& Ranges() {
  static const std::vector<CodeRange> ranges = [] {
    std::vector<CodeRange> all{{-64, 64}, {0, 127}, {-7, 7}};  // of reduced and symmetric types
    for (const ElementType type :
         {ElementType::kInt4, ElementType::kUInt4, ElementType::kInt8, ElementType::kUInt8,
          ElementType::kInt16, ElementType::kUInt16, ElementType::kInt32, ElementType::kUInt32}) {
      all.push_back(formats::IntegerRange(type));
    }
    return all;
  }();
  return ranges;
}

// Every sign, exponent and first seven bits of the mantissa. In each exponent the other bits are
// zero, one, in the middle and all ones in turn. Both infinities, NaN and zeros are among them, and
// the numbers at the ends of those that are subnormal and normal.
std::vector<float> AllKindsOfFloats() {
  std::vector<float> values;
  constexpr uint32_t kLow[] = {0x0000u, 0x0001u, 0x8000u, 0xFFFFu};
  for (uint32_t high = 0; high < 0x10000; ++high) {
    values.push_back(FloatFromBits(high << 16 | kLow[(high ^ high >> 2) % 4]));
  }
  for (const uint32_t bits : {0x00000001u, 0x007FFFFFu, 0x00800000u, 0x7F7FFFFFu, 0x7F800001u}) {
    values.push_back(FloatFromBits(bits));
    values.push_back(FloatFromBits(bits | formats::kFloatSignBit));
  }
  return values;
}

// The middles between codes, where ties are, and their neighbours; of wide types some.
std::vector<float> AroundTies(const QParams& params, const CodeRange& range) {
  std::vector<float> values;
  const int64_t step = std::max<int64_t>(1, (range.quant_max - range.quant_min) / 70000);
  for (int64_t code = range.quant_min - 2; code <= range.quant_max + 2; code += step) {
    const double middle = (static_cast<double>(code - params.zero_point) + 0.5) * params.scale;
    const auto x = static_cast<float>(middle);
    values.insert(values.end(), {x, std::nextafter(x, 0.0f), std::nextafter(x, 2 * x)});
  }
  return values;
}

// Both functions give what the reference gives, on every instruction set, with guards on both sides
// of what they write, and in place.
void ExpectTheReference(const std::vector<float>& x, const ParamsLayout& layout,
                        const std::vector<QParams>& params, CodeRange range, ThreadPool& pool) {
  constexpr size_t kMargin = 17;
  constexpr float kUntouched = 12345.0f;
  constexpr int32_t kNoCode = 1234567;
  std::vector<int32_t> expected_codes(x.size());
  std::vector<float> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const QParams& of = params[layout.IndexOf(i)];
    const int64_t code = formats::ref::QuantizeInteger(x[i], of.scale, of.zero_point, range);
    expected_codes[i] = static_cast<int32_t>(code);
    expected[i] = formats::ref::DequantizeInteger(code, of.scale, of.zero_point);
  }
  const bool fits_int32 = range.quant_max <= std::numeric_limits<int32_t>::max();
  OnEveryTarget([&] {
    std::vector<int32_t> codes(x.size() + 2 * kMargin, kNoCode);
    std::vector<float> y(x.size() + 2 * kMargin, kUntouched);
    const std::span<int32_t> inner_codes = std::span(codes).subspan(kMargin, x.size());
    const std::span<float> inner_y = std::span(y).subspan(kMargin, x.size());
    QuantizeIntegers(x, layout, params, range, inner_codes, inner_y, pool);
    std::vector<float> in_place = x;
    QuantizeIntegers(in_place, layout, params, range, {}, in_place, pool);
    std::vector<float> back(x.size());
    DequantizeIntegers(inner_codes, layout, params, back, pool);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint32_t bits = FloatBits(expected[i]);
      if (inner_codes[i] == expected_codes[i] && FloatBits(inner_y[i]) == bits &&
          FloatBits(in_place[i]) == bits && (!fits_int32 || FloatBits(back[i]) == bits)) {
        continue;
      }
      const QParams& of = params[layout.IndexOf(i)];
      FAIL() << fmt::format(
          "element {}: {} ({:#x}) scale {} zero point {} of {}..{}: code {}, not {}; {}, in place "
          "{}, back {}, not {}",
          i, x[i], FloatBits(x[i]), of.scale, of.zero_point, range.quant_min, range.quant_max,
          inner_codes[i], expected_codes[i], inner_y[i], in_place[i], back[i], expected[i]);
    }
    for (size_t i = 0; i < kMargin; ++i) {
      ASSERT_EQ(y[i], kUntouched);
      ASSERT_EQ(y[y.size() - 1 - i], kUntouched);
      ASSERT_EQ(codes[i], kNoCode);
      ASSERT_EQ(codes[codes.size() - 1 - i], kNoCode);
    }
  });
}

ParamsLayout OneForAll(size_t count) {
  return {.axis = static_cast<int64_t>(count), .length = static_cast<int64_t>(count)};
}

TEST(IntegerCodes, AllKindsOfFloatsAndTies) {
  ThreadPool pool(1);
  const std::vector<float> floats = AllKindsOfFloats();
  for (const CodeRange& range : Ranges()) {
    for (const int64_t zero_point : {range.quant_min, range.quant_min / 3 + range.quant_max / 2}) {
      const QParams params{0.0371f, zero_point};
      ExpectTheReference(floats, OneForAll(floats.size()), {params}, range, pool);
      const std::vector<float> ties = AroundTies(params, range);
      ExpectTheReference(ties, OneForAll(ties.size()), {params}, range, pool);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Scales from the least subnormal number to the largest float.
TEST(IntegerCodes, AllKindsOfScales) {
  ThreadPool pool(1);
  std::vector<float> floats;
  for (const float value : AllKindsOfFloats()) {
    if (FloatBits(value) % 13 < 2) floats.push_back(value);
  }
  for (const float scale : {0x1p-149f, 0x1.fp-128f, 0x1p-126f, 0x1.8p-126f, 0x1p-125f, 1e-20f,
                            1.0f / 3, 1.0f, 0x1p60f, 0x1.fffffep127f}) {
    for (const ElementType type : {ElementType::kInt8, ElementType::kInt32}) {
      ExpectTheReference(floats, OneForAll(floats.size()), {{scale, 3}},
                         formats::IntegerRange(type), pool);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Every way in which elements share parameters; lengths around vectors, tasks and blocks.
TEST(IntegerCodes, AllLayouts) {
  ThreadPool pool(1);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  const CodeRange range = formats::IntegerRange(ElementType::kInt8);
  for (const int64_t outer : {1, 3}) {
    for (const int64_t axis : {1, 5, 16, 33, 1031}) {
      for (const int64_t inner : {1, 2, 9, 17}) {
        for (const int64_t length : {int64_t{1}, int64_t{16}, axis}) {
          for (const bool is_per_column : {false, true}) {
            const ParamsLayout layout{outer, axis, inner, length, is_per_column};
            std::vector<QParams> params(static_cast<size_t>(
                layout.num_parts() * (is_per_column ? outer * inner : int64_t{1})));
            for (QParams& of : params) {
              of = {std::exp(normal(random)), static_cast<int64_t>(random() % 256) - 128};
            }
            std::vector<float> x(static_cast<size_t>(outer * axis * inner));
            for (float& value : x) value = 20 * normal(random);
            ExpectTheReference(x, layout, params, range, pool);
            ASSERT_FALSE(testing::Test::HasFatalFailure())
                << fmt::format("[{}, {}, {}] by {} {}", outer, axis, inner, length, is_per_column);
          }
        }
      }
    }
  }
}

TEST(IntegerCodes, LengthsAroundVectors) {
  ThreadPool pool(1);
  const CodeRange range = formats::IntegerRange(ElementType::kUInt8);
  for (size_t count = 0; count <= 40; ++count) {
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i) * 1.5f - 7;
    ExpectTheReference(x, OneForAll(std::max<size_t>(count, 1)), {{0.5f, 128}}, range, pool);
  }
}

TEST(IntegerCodes, TheForcedTargetRuns) {
  ThreadPool alone(1);
  const std::vector<QParams> params{{1, 0}};
  OnEveryTarget([&] {
    std::vector<float> x{1, 2, 3};
    std::vector<int32_t> codes(3);
    QuantizeIntegers(x, OneForAll(3), params, {-128, 127}, codes, x, alone);
    EXPECT_EQ(LastRun().kernel, "QuantizeIntegers");
    EXPECT_EQ(LastRun().target, CurrentVectors());
    DequantizeIntegers(codes, OneForAll(3), params, x, alone);
    EXPECT_EQ(LastRun().kernel, "DequantizeIntegers");
    EXPECT_EQ(LastRun().target, CurrentVectors());
  });
}

#if defined(__x86_64__)
TEST(IntegerCodes, FlushingDenormalsChangesNothing) {
  const std::vector<float> floats = AllKindsOfFloats();
  ThreadPool alone(1);  // the mode is that of this thread
  const unsigned old = _mm_getcsr();
  for (const float scale : {0x1p-140f, 0x1p-126f, 0x1p-125f, 0.25f}) {
    _mm_setcsr(old | 0x8040u);
    ExpectTheReference(floats, OneForAll(floats.size()), {{scale, 0}}, {-128, 127}, alone);
    _mm_setcsr(old);
    if (testing::Test::HasFatalFailure()) return;
  }
}
#endif

// One scale for a large array: its elements are spread over tasks, and no task changes the result.
TEST(IntegerCodes, ThreadsDoNotChangeLargeArrays) {
  std::mt19937 random(1);
  std::vector<float> x(50003);
  for (float& value : x) value = static_cast<float>(random() % 4001) / 16 - 125;
  for (const size_t num_threads : {size_t{1}, size_t{3}}) {
    ThreadPool pool(num_threads);
    ExpectTheReference(x, OneForAll(x.size()), {{0.75f, -3}}, {-128, 127}, pool);
  }
}

}  // namespace
}  // namespace bitpress::kernels
