#include "kernels/weight_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "formats/qparams_search.h"
#include "formats/reference.h"

namespace bitpress::kernels {
namespace {

using formats::ElementType;
using formats::IntegerSpec;
using formats::QParams;
using formats::ScaleKind;

std::vector<float> Normal(size_t count, double mean = 0, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution(mean, 0.05);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(distribution(random));
  return values;
}

double ReferenceError(std::span<const float> values, const QParams& params,
                      const IntegerSpec& spec) {
  double sum = 0;
  for (const float x : values) {
    const int64_t code = formats::ref::QuantizeInteger(x, params.scale, params.zero_point,
                                                       formats::IntegerRange(spec.element_type));
    const double error =
        x - static_cast<double>(params.scale) * static_cast<double>(code - params.zero_point);
    sum += error * error;
  }
  return sum;
}

TEST(WeightRangeTest, MinMaxCoversAll) {
  const std::vector<float> values = {0.5f, -2, 1};
  EXPECT_EQ(MinMaxQParams(values, {}), formats::QParamsForRange(-2, 1, {}));
  EXPECT_EQ(MinMaxQParams({}, {}).scale, 1);
  for (const size_t count : {1u, 15u, 16u, 17u, 1000u}) {
    const std::vector<float> some = Normal(count, 0.02);
    const auto [min, max] = std::minmax_element(some.begin(), some.end());
    EXPECT_EQ(MinMaxQParams(some, {ElementType::kUInt8, false}),
              formats::QParamsForRange(std::min(*min, 0.0f), std::max(*max, 0.0f),
                                       {ElementType::kUInt8, false}));
  }
}

TEST(WeightRangeTest, NarrowTypesUseTheirSmallestCodeWhereThatIsBetter) {
  const IntegerSpec int4{ElementType::kInt4};
  std::vector<float> whole;
  for (int i = -8; i <= 7; ++i) whole.push_back(static_cast<float>(i) * 0.25F);
  const QParams exact =
      WithSmallestCode(whole, MinMaxQParams(whole, int4), int4, SmallestCode::kWhole);
  EXPECT_EQ(exact, (QParams{0.25F, 0}));
  EXPECT_EQ(SumOfSquaredErrors(whole, exact, int4), 0);
  for (float& x : whole) x = -x;  // the largest magnitude is positive
  EXPECT_EQ(WithSmallestCode(whole, MinMaxQParams(whole, int4), int4, SmallestCode::kWhole),
            (QParams{-0.25F, 0}));
  // Both ends are the same, so that one of them would saturate.
  const std::vector<float> even = {-7, 7, 1, 2};
  EXPECT_EQ(WithSmallestCode(even, MinMaxQParams(even, int4), int4, SmallestCode::kWhole),
            (QParams{1, 0}));
  double before = 0, after = 0, searched = 0, clipped = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const std::vector<float> values = Normal(32, 0, seed);
    const QParams range = MinMaxQParams(values, int4), mse = MseQParams(values, int4);
    before += SumOfSquaredErrors(values, range, int4);
    after += SumOfSquaredErrors(values, WithSmallestCode(values, range, int4, SmallestCode::kWhole),
                                int4);
    searched += SumOfSquaredErrors(values, mse, int4);
    clipped += SumOfSquaredErrors(
        values, WithSmallestCode(values, mse, int4, SmallestCode::kForElements), int4);
  }
  EXPECT_LT(after, 0.83 * before);  // 0.8 dB
  EXPECT_LT(clipped, 0.95 * searched);
  // Wider types, other scales and unsigned types stay as they are.
  for (const IntegerSpec& spec :
       {IntegerSpec{ElementType::kInt8}, IntegerSpec{ElementType::kUInt4},
        IntegerSpec{ElementType::kInt4, false},
        IntegerSpec{ElementType::kInt4, true, false, ScaleKind::kPowerOfTwo}}) {
    const QParams params = MinMaxQParams(whole, spec);
    EXPECT_EQ(WithSmallestCode(whole, params, spec, SmallestCode::kForElements), params);
  }
}

// The quantized values, as Q and DQ give them.
std::vector<float> Rounded(const std::vector<float>& values, const QParams& params,
                           const IntegerSpec& spec) {
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  std::vector<float> rounded;
  for (const float x : values) {
    const auto code = static_cast<int64_t>(std::nearbyint(x / params.scale)) + params.zero_point;
    rounded.push_back(
        static_cast<float>(std::clamp(code, codes.quant_min, codes.quant_max) - params.zero_point) *
        params.scale);
  }
  return rounded;
}

TEST(WeightRangeTest, ProductsLoseLessWhereInputsHaveAMeanOrFollowTheWeights) {
  for (const IntegerSpec& spec :
       {IntegerSpec{ElementType::kUInt4, false}, IntegerSpec{ElementType::kInt4},
        IntegerSpec{ElementType::kUInt2, false}}) {
    struct Errors {
      double white = 0, mean = 0, along = 0;
    };
    const auto add = [](const std::vector<float>& x, const std::vector<float>& y, Errors& errors) {
      double sum = 0, along = 0, energy = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = double{y[i]} - x[i];
        errors.white += error * error;
        sum += error;
        along += error * x[i];
        energy += double{x[i]} * x[i];
      }
      errors.mean += sum * sum;
      errors.along += along * along / energy;
    };
    Errors mse, product;
    for (unsigned seed = 0; seed < 200; ++seed) {
      const std::vector<float> x = Normal(32, 0.1, seed);
      add(x, Rounded(x, MseQParams(x, spec), spec), mse);
      add(x, Rounded(x, ProductQParams(x, spec), spec), product);
    }
    EXPECT_LT(product.mean, 0.5 * mse.mean);
    EXPECT_LT(product.along, 0.5 * mse.along);
    EXPECT_LT(product.white, 1.6 * mse.white);
  }
  // NaN and infinity are left out, and nothing but zeros has a scale.
  const std::vector<float> odd = {1, -2, std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity()};
  const IntegerSpec uint4{ElementType::kUInt4, false};
  EXPECT_EQ(ProductQParams(odd, uint4), ProductQParams(std::vector<float>{1, -2}, uint4));
  EXPECT_EQ(ProductQParams(std::vector<float>(32), uint4).scale, 1);
}

TEST(WeightRangeTest, PercentileIsARank) {
  std::vector<float> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(static_cast<float>(i % 2 == 0 ? i : -i));
  const auto amax = [&](double percentile) {
    return PercentileQParams(values, percentile, {}).scale * 127;
  };
  EXPECT_FLOAT_EQ(amax(100), 1000);
  EXPECT_FLOAT_EQ(amax(99.9), 999);
  EXPECT_FLOAT_EQ(amax(99.95), 1000);
  EXPECT_FLOAT_EQ(amax(90), 900);
  EXPECT_EQ(PercentileQParams(values, 99, {ElementType::kUInt8, false}),
            formats::QParamsForRange(-989, 990, {ElementType::kUInt8, false}));
  EXPECT_EQ(PercentileQParams({}, 99, {}).scale, 1);
}

TEST(WeightRangeTest, ErrorsEqualTheReference) {
  for (const ElementType type :
       {ElementType::kInt4, ElementType::kInt8, ElementType::kUInt8, ElementType::kInt16}) {
    for (const size_t count : {1u, 31u, 1024u, 5000u}) {
      const std::vector<float> values = Normal(count, 0.01);
      const IntegerSpec spec{type, false};
      QParams params = MinMaxQParams(values, spec);
      for (const float factor : {1.0f, 0.7f, 0.1f}) {
        params.scale *= factor;
        const double expected = ReferenceError(values, params, spec);
        // The rounding of float32 quotients.
        const double noise = 1e-2 * params.scale;
        EXPECT_NEAR(SumOfSquaredErrors(values, params, spec), expected,
                    2e-3 * expected + noise * noise);
      }
    }
  }
}

// Returns the least error of all ranges that cut the extremes in steps of a 64th.
double LeastErrorOfAllRanges(const std::vector<float>& values, const IntegerSpec& spec) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= 64; ++i) {
    for (int k = spec.is_symmetric ? i : 1; k <= (spec.is_symmetric ? i : 64); ++k) {
      const QParams params =
          formats::QParamsForRange(std::min(*min * static_cast<float>(i) / 64, 0.0f),
                                   std::max(*max * static_cast<float>(k) / 64, 0.0f), spec);
      least = std::min(least, SumOfSquaredErrors(values, params, spec));
    }
  }
  return least;
}

TEST(WeightRangeTest, MseIsNearlyAsGoodAsBruteForce) {
  double worst = 1;
  for (const ElementType type : {ElementType::kInt4, ElementType::kUInt4, ElementType::kInt8}) {
    for (const bool is_symmetric : {true, false}) {
      for (const size_t count : {9u, 32u, 128u, 1000u, 3000u}) {
        // Few elements have many local minima. The mean of all cases says more than the worst.
        const bool are_many = count >= 1000;
        for (unsigned seed = 0; seed < (are_many ? 2 : 10); ++seed) {
          std::vector<float> values = Normal(count, 0.02, seed);
          if (seed % 3 == 0) values[0] = 1;  // an outlier
          const IntegerSpec spec{type, is_symmetric};
          const double least = LeastErrorOfAllRanges(values, spec);
          const double found = SumOfSquaredErrors(values, MseQParams(values, spec), spec);
          EXPECT_LE(found, SumOfSquaredErrors(values, MinMaxQParams(values, spec), spec));
          if (are_many) {
            EXPECT_LE(found, 1.08 * least) << count;
          }
          worst = std::max(worst, found / least);
        }
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(worst, 1.6);
}

// The values have outliers, so that much is clipped and sums end early. One of them is the last
// value: without the last run the result is another.
void ExpectThreadsDoNotChangeMse(size_t count, bool is_symmetric,
                                 std::initializer_list<size_t> numbers_of_threads) {
  std::vector<float> values = Normal(count, 0.01);
  values[count / 2] = values.back() = 3;
  const IntegerSpec spec{ElementType::kInt8, is_symmetric};
  const QParams alone = MseQParams(values, spec);
  for (const size_t num_threads : numbers_of_threads) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(MseQParams(values, spec, &pool), alone) << num_threads;
  }
}

// There is more than a thread takes at a time.
TEST(WeightRangeTest, MseIsTheSameForAnyNumberOfThreads) {
  for (const bool is_symmetric : {true, false}) {
    ExpectThreadsDoNotChangeMse(size_t{1024} * 64 + 1, is_symmetric, {1, 2, 3, 8});
  }
}

// There is more than is looked at together, and a run that is cut off.
TEST(WholeWeightRange, MseOfManyWeightsIsTheSameForAnyNumberOfThreads) {
  ExpectThreadsDoNotChangeMse(size_t{1024} * 64 * 65 + 17, true, {3});
}

TEST(WeightRangeTest, MseOfPowersOfTwoIsTheBestOfFivePositions) {
  const IntegerSpec spec{ElementType::kInt8, true, false, ScaleKind::kPowerOfTwo};
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<float> values = Normal(500, 0, seed);
    if (seed % 2 == 0) values[0] = 0.7f;
    const QParams params = MseQParams(values, spec);
    float amax = 0;
    for (const float x : values) amax = std::max(amax, std::abs(x));
    const double position = std::rint(-std::log2(amax / 127));
    for (int offset = -1; offset <= 3; ++offset) {
      const QParams other{static_cast<float>(std::exp2(-position - offset)), 0};
      EXPECT_LE(SumOfSquaredErrors(values, params, spec), SumOfSquaredErrors(values, other, spec));
    }
  }
}

TEST(WeightRangeTest, WhatIsNotFiniteIsNamedAndLeftOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values = Normal(100);
  EXPECT_EQ(WhyNoRange(values), std::nullopt);
  const QParams mse = MseQParams(values, {});
  const QParams min_max = MinMaxQParams(values, {});
  const QParams percentile = PercentileQParams(values, 95, {});
  values.push_back(-infinity);
  EXPECT_EQ(WhyNoRange(values), "infinity in 1 of 101 elements");
  values.push_back(nan);
  EXPECT_EQ(WhyNoRange(values), "NaN in 1 of 102 elements");
  EXPECT_EQ(MseQParams(values, {}), mse);
  EXPECT_EQ(MinMaxQParams(values, {}), min_max);
  EXPECT_EQ(PercentileQParams(values, 95, {}), percentile);
}

TEST(WeightRangeTest, WideTypesAndNothingToSearch) {
  const std::vector<float> values = Normal(100);
  const IntegerSpec int32{ElementType::kInt32};
  EXPECT_EQ(MseQParams(values, int32), MinMaxQParams(values, int32));
  const std::vector<float> zeros(10);
  EXPECT_EQ(MseQParams(zeros, {}), (QParams{1, 0}));
  EXPECT_EQ(MseQParams({}, {}), (QParams{1, 0}));
  const std::vector<float> tiny = {1e-44f, -1e-42f};
  EXPECT_EQ(MseQParams(tiny, {}), (QParams{1, 0}));
  const std::vector<float> huge = {std::numeric_limits<float>::max(), 1};
  EXPECT_TRUE(std::isfinite(MseQParams(huge, {}).scale));
}

}  // namespace
}  // namespace bitpress::kernels
