#include "kernels/quantize_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/test_support.h"
#include "formats/reference.h"

namespace bitpress::kernels {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> Quantize(const char* format, std::vector<int64_t> dims, int64_t axis,
                            const std::vector<float>& x) {
  ThreadPool pool(2);
  std::vector<float> y(x.size());
  QuantizeDequantize(formats::FindFormat(format), dims, axis, x.data(), y.data(), pool);
  return y;
}

std::vector<float> RunInteger(std::vector<int64_t> dims, std::optional<int64_t> axis,
                              const std::vector<float>& x, bool is_symmetric = true) {
  ThreadPool pool(2);
  std::vector<float> y(x.size());
  QuantizeDequantizeInteger({.is_symmetric = is_symmetric}, dims, axis, x.data(), y.data(), pool);
  return y;
}

TEST(QuantizeArrayTest, BlocksRunAlongTheAxis) {
  // mxfp4_e2m1: the block's largest value decides what 0.25 becomes.
  const std::vector<float> x{0.25F, 6, 0.25F, 0.5F};
  EXPECT_THAT(Quantize("mxfp4_e2m1", {2, 2}, 1, x), ElementsAre(0, 6, 0.25F, 0.5F));
  EXPECT_THAT(Quantize("mxfp4_e2m1", {2, 2}, -2, x), ElementsAre(0.25F, 6, 0.25F, 0.5F));
  EXPECT_THAT(Quantize("mxfp4_e2m1", {2, 2}, 0, x), ElementsAre(0.25F, 6, 0.25F, 0.5F));
}

TEST(QuantizeArrayTest, ScalarsAndEmptyArrays) {
  EXPECT_THAT(Quantize("mx6", {}, -1, {3}), ElementsAre(3));
  EXPECT_THAT(Quantize("mx6", {4, 0}, 1, {}), ElementsAre());
  EXPECT_THAT(RunInteger({0, 3}, 1, {}), ElementsAre());
}

TEST(QuantizeArrayTest, IntegersHaveAScaleForTheArrayOrForEachIndex) {
  const std::vector<float> x{127, 1, 0.4F, 0.01F};
  EXPECT_THAT(RunInteger({2, 2}, std::nullopt, x), ElementsAre(127, 1, 0, 0));
  const std::vector<float> rows = RunInteger({2, 2}, 0, x);
  EXPECT_THAT(rows, ElementsAre(127, 1, 0.4F, testing::FloatNear(0.01F, 0.002F)));
  EXPECT_NE(rows[3], 0);
  EXPECT_FLOAT_EQ(RunInteger({2, 2}, 1, x)[3], 1.F / 127);
}

TEST(QuantizeArrayTest, IntegersOfNonFiniteValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(RunInteger({3}, std::nullopt, {127, infinity, std::nanf("")}),
              ElementsAre(127, 127, 0));
}

// Arrays of several tasks against the definition, element by element.
TEST(QuantizeArrayTest, IntegersOfLargeArrays) {
  constexpr size_t kRows = 4, kChannels = 5, kColumns = 5000;
  std::vector<float> x(kRows * kChannels * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i)) * static_cast<float>(1 + i / kColumns % kChannels);
  }
  x[70000] = std::nanf("");
  x[70001] = -std::numeric_limits<float>::infinity();
  const formats::IntegerSpec spec{.is_symmetric = false};
  for (const std::optional<int64_t> axis : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    std::vector<formats::FloatRange> ranges(axis ? kChannels : 1);
    const auto range_of = [&](size_t i) -> formats::FloatRange& {
      return ranges[axis ? i / kColumns % kChannels : 0];
    };
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) continue;
      range_of(i).min = std::min(range_of(i).min, double{x[i]});
      range_of(i).max = std::max(range_of(i).max, double{x[i]});
    }
    const std::vector<float> y = RunInteger({kRows, kChannels, kColumns}, axis, x, false);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto [scale, zero_point] =
          formats::QParamsForRange(range_of(i).min, range_of(i).max, spec);
      const int64_t code = formats::ref::QuantizeInteger(x[i], scale, zero_point,
                                                         formats::IntegerRange(spec.element_type));
      ASSERT_EQ(y[i], formats::ref::DequantizeInteger(code, scale, zero_point)) << i;
    }
  }
}

TEST(QuantizeArrayTest, WrongArgumentsAreSaid) {
  const auto failure = [](const char* format, std::vector<int64_t> dims, int64_t axis) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] {
      Quantize(format, std::move(dims), axis, {1, 2});
    });
  };
  EXPECT_THAT(failure("mx6", {2, 1}, 2), HasSubstr("no axis 2 in an array of 2 dimensions"));
  EXPECT_THAT(failure("mx6", {2}, -2), HasSubstr("no axis -2"));
  EXPECT_THAT(failure("int8", {2}, 0), HasSubstr("int8"));
}

}  // namespace
}  // namespace bitpress::kernels
