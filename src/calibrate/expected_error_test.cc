#include "calibrate/expected_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "calibrate/test_statistics.h"
#include "formats/reference.h"

namespace bitpress::calibrate {
namespace {

using formats::CodeRange;
using formats::IntegerSpec;
using formats::QParams;

constexpr CodeRange kInt8{-128, 127};
constexpr CodeRange kUInt8{0, 255};

struct MeanErrors {
  double squared = 0;
  double absolute = 0;
};

// Returns the errors of the elements themselves, by the reference.
MeanErrors SampleErrors(const std::vector<float>& values, const QParams& params,
                        const CodeRange& codes) {
  MeanErrors mean;
  for (const float x : values) {
    const int64_t code = formats::ref::QuantizeInteger(x, params.scale, params.zero_point, codes);
    const double decoded =
        static_cast<double>(params.scale) * static_cast<double>(code - params.zero_point);
    const double error = std::abs(x - decoded) / static_cast<double>(values.size());
    mean.squared += error * std::abs(x - decoded);
    mean.absolute += error;
  }
  return mean;
}

template <typename Distribution>
std::vector<float> DrawValues(Distribution distribution, size_t count) {
  std::mt19937 random(11);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(distribution(random));
  return values;
}

struct Case {
  const char* name;
  std::vector<float> values;
};

std::vector<Case> SampledDistributions() {
  std::vector<Case> cases = {
      {"normal", DrawValues(std::normal_distribution<double>(0.3, 2), 150'000)},
      {"uniform", DrawValues(std::uniform_real_distribution<double>(-1, 5), 150'000)},
      {"exponential", DrawValues(std::exponential_distribution<double>(3), 150'000)},
      {"heavy tails", DrawValues(std::student_t_distribution<double>(2.5), 150'000)},
      {"tiny", DrawValues(std::normal_distribution<double>(0, 1e-20), 50'000)},
      {"far from zero", DrawValues(std::normal_distribution<double>(1000, 40), 50'000)},
  };
  cases.push_back({"relu", cases.front().values});
  for (float& x : cases.back().values) x = std::max(x, 0.0f);
  return cases;
}

TEST(ExpectedErrorTest, EqualsTheErrorOfTheSamples) {
  for (const Case& test : SampledDistributions()) {
    const TensorStatistics statistics = StatisticsOf(test.values);
    const ErrorEstimator estimator(statistics);
    const double amax = statistics.AbsMax();
    for (const int64_t zero_point : {0, 40, 128, 255}) {
      for (const double part : {4.0, 1.0, 0.5, 0.1, 0.01, 0.001}) {
        // Scales go from all elements in one code to bins that are wider than a step.
        const QParams params{static_cast<float>(amax * part / 127), zero_point};
        SCOPED_TRACE(std::string(test.name) + ", zero point " + std::to_string(zero_point) +
                     ", part " + std::to_string(part));
        const auto [squared, absolute] = SampleErrors(test.values, params, kUInt8);
        EXPECT_NEAR(estimator.MeanSquared(params, kUInt8), squared, 0.01 * squared);
        EXPECT_NEAR(estimator.MeanAbsolute(params, kUInt8), absolute, 0.01 * absolute);
      }
    }
  }
}

TEST(ExpectedErrorTest, OfAnEvenSpreadIsATwelfthOfASquaredStep) {
  // Values lie evenly over whole steps, in bins much wider and much narrower than a step.
  std::vector<float> values;
  for (int i = 0; i < 1 << 16; ++i) values.push_back(64 + static_cast<float>(i) * 0x1p-10f);
  const ErrorEstimator estimator(StatisticsOf(values));
  for (const float step : {0.001f, 0x1p-7f, 0x1p-3f, 1.0f}) {
    const CodeRange codes{-1'000'000, 1'000'000};
    const double error = estimator.MeanSquared({step, 0}, codes);
    EXPECT_NEAR(error, step * step / 12, 1e-3 * step * step / 12) << step;
    EXPECT_NEAR(estimator.MeanAbsolute({step, 0}, codes), step / 4, 1e-3 * step / 4) << step;
  }
}

TEST(ExpectedErrorTest, SaturationIsExact) {
  // All values are one; the codes end at 0.25 * 2 = 0.5.
  const ErrorEstimator one(StatisticsOf({1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(one.MeanSquared({0.25f, 0}, {-2, 2}), 0.25);
  EXPECT_EQ(one.MeanAbsolute({0.25f, 0}, {-2, 2}), 0.5);
  // No code is above zero, so everything positive is lost.
  EXPECT_EQ(one.MeanSquared({0.25f, 127}, {-128, 127}), 1.0);
  // A quarter are zeros, three quarters are -1.
  const ErrorEstimator zeros(StatisticsOf({0.0f, -1.0f, -1.0f, -1.0f}));
  EXPECT_EQ(zeros.MeanSquared({0.25f, 0}, {-2, 2}), 0.75 * 0.25);
  // One value alone is no bin and has its own rounding error.
  const ErrorEstimator third(StatisticsOf({1.3f}));
  EXPECT_NEAR(third.MeanSquared({1, 0}, kInt8), 0.09, 1e-6);
  EXPECT_NEAR(third.MeanAbsolute({1, 0}, kInt8), 0.3, 1e-6);
}

TEST(ExpectedErrorTest, SymmetricDistributionsAndTypesAreSymmetric) {
  const std::vector<float> values = DrawValues(std::normal_distribution<double>(0.5, 1), 10'000);
  std::vector<float> mirrored = values;
  for (float& x : mirrored) x = -x;
  const ErrorEstimator first(StatisticsOf(values));
  const ErrorEstimator second(StatisticsOf(mirrored));
  const QParams params{0.02f, 0};
  EXPECT_DOUBLE_EQ(first.MeanSquared(params, {-100, 100}), second.MeanSquared(params, {-100, 100}));
}

TEST(ExpectedErrorTest, ExtremeFloats) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  const ErrorEstimator estimator(StatisticsOf({largest, -largest, smallest, 0.0f}));
  const double error = estimator.MeanSquared({1.0f, 0}, kInt8);
  EXPECT_NEAR(error / (0.5 * std::pow(static_cast<double>(largest), 2)), 1, 1.0 / 256);
  EXPECT_TRUE(std::isfinite(estimator.MeanSquared({0x1p-126f, 0}, kInt8)));
}

TEST(ExpectedErrorTest, SaturatesAtTheEndsOfTheType) {
  IntegerSpec spec;
  spec.is_reduced = true;
  const TensorStatistics statistics = StatisticsOf({100.0f, -128.0f});
  EXPECT_EQ(ExpectedError(statistics, {1.0f, 0}, spec), 0);
  EXPECT_EQ(ExpectedError(statistics, {0.5f, 0}, spec), (36.5 * 36.5 + 64 * 64) / 2);
}

}  // namespace
}  // namespace bitpress::calibrate
