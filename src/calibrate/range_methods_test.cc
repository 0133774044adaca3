#include "calibrate/range_methods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/entropy_range.h"
#include "calibrate/test_statistics.h"
#include "formats/qparams_search.h"

namespace bitpress::calibrate {
namespace {

using formats::ElementType;
using formats::IntegerSpec;
using formats::QParams;
using formats::ScaleKind;
using plan::RangeMethod;
using Kind = RangeMethod::Kind;

template <typename Distribution>
TensorStatistics Draw(Distribution distribution, size_t count, float least = -kInfinity) {
  std::mt19937 random(5);
  std::vector<float> values(count);
  for (float& x : values) x = std::max(static_cast<float>(distribution(random)), least);
  return StatisticsOf(values);
}

std::vector<TensorStatistics> Distributions() {
  std::vector<TensorStatistics> all;
  all.push_back(Draw(std::normal_distribution<double>(0.2, 1), 20'000));
  all.push_back(Draw(std::normal_distribution<double>(0, 1), 20'000, 0.0f));
  all.push_back(Draw(std::student_t_distribution<double>(2), 20'000));
  all.push_back(Draw(std::exponential_distribution<double>(0.01), 20'000, 2.0f));
  all.push_back(Draw(std::uniform_real_distribution<double>(-3, -1), 20'000));
  all.push_back(Draw(std::normal_distribution<double>(1, 2), 20'000, -0.278f));  // like SiLU
  all.push_back(StatisticsOf({0.0f, 0.0f}));
  all.push_back(StatisticsOf({-2.5f}));
  return all;
}

// Returns types, symmetries and kinds of scales, each with each of another, and reduced types.
std::vector<IntegerSpec> Specs() {
  return {{ElementType::kInt4, true, false, ScaleKind::kFloat},
          {ElementType::kInt4, false, false, ScaleKind::kPowerOfTwo},
          {ElementType::kInt4, true, false, ScaleKind::kInt16},
          {ElementType::kUInt8, false, false, ScaleKind::kFloat},
          {ElementType::kUInt8, true, false, ScaleKind::kPowerOfTwo},
          {ElementType::kUInt8, true, false, ScaleKind::kInt16},
          {ElementType::kInt16, true, false, ScaleKind::kFloat},
          {ElementType::kInt16, true, false, ScaleKind::kPowerOfTwo},
          {ElementType::kInt16, false, false, ScaleKind::kInt16},
          {ElementType::kUInt8, false, true, ScaleKind::kFloat},
          {ElementType::kInt8, true, true, ScaleKind::kFloat}};
}

std::string Text(const IntegerSpec& spec) {
  return std::string(formats::TraitsOf(spec.element_type).name) +
         (spec.is_symmetric ? " symmetric" : " asymmetric") +
         (spec.is_reduced ? " reduced " : " ") +
         std::string(formats::ScaleKindName(spec.scale_kind));
}

// Returns the error that the search minimizes.
double ErrorOf(const ErrorEstimator& estimator, const QParams& params, const IntegerSpec& spec) {
  return estimator.MeanSquared(params, formats::SearchedCodes(spec));
}

TEST(WhyNoRangeTest, SaysWhat) {
  EXPECT_EQ(WhyNoRange(StatisticsOf({})), "no value was ever seen");
  EXPECT_EQ(WhyNoRange(StatisticsOf({1, kNan, kInfinity, kNan})),
            "NaN was seen in 2 of 4 elements");
  EXPECT_EQ(WhyNoRange(StatisticsOf({1, -kInfinity, kInfinity})),
            "infinity was seen in 2 of 3 elements");
  EXPECT_EQ(WhyNoRange(StatisticsOf({0})), std::nullopt);
  EXPECT_THROW(ChooseRange(StatisticsOf({kNan}), {}, {}), Error);
  EXPECT_THROW(ChooseQParams(StatisticsOf({}), {}, {}), Error);
}

TEST(RangeMethodsTest, MinMaxIsWhatWasSeen) {
  EXPECT_EQ(ChooseRange(StatisticsOf({-1, 3, 2}), {}, {}), (Range{-1, 3}));
  const QParams params = ChooseQParams(StatisticsOf({-1, 1.54f}), {}, {ElementType::kUInt8, false});
  EXPECT_FLOAT_EQ(params.scale, 2.54f / 255);
  EXPECT_EQ(params.zero_point, 100);
}

TEST(RangeMethodsTest, PowerOfTwoMinMaxNeverSaturates) {
  const IntegerSpec spec{ElementType::kInt8, true, false, ScaleKind::kPowerOfTwo};
  EXPECT_EQ(ChooseQParams(StatisticsOf({-1, 0.5f}), {}, spec).scale, 0x1p-6f);
  EXPECT_EQ(ChooseQParams(StatisticsOf({127.0f / 128}), {}, spec).scale, 0x1p-7f);
}

TEST(RangeMethodsTest, MovingAverageIsTheMeanOfTheSamplesExtremes) {
  TensorStatistics statistics = StatisticsOf({-4, 8, 2, -1});
  const RangeMethod method{.kind = Kind::kMovingAverage};
  EXPECT_EQ(ChooseRange(statistics, method, {}), (Range{-4, 8})) << "no samples: min_max";
  statistics.AddSample({-4, 2});
  statistics.AddSample({-1, 8});
  EXPECT_EQ(ChooseRange(statistics, method, {}), (Range{-2.5, 5}));
}

TEST(RangeMethodsTest, PercentileOfKnownDistributions) {
  std::vector<float> values;
  for (int i = 1; i <= 100'000; ++i) values.push_back(static_cast<float>(i));
  const TensorStatistics even = StatisticsOf(values);
  RangeMethod method{.kind = Kind::kPercentile};
  for (const double percentile : {60.0, 90.0, 99.0, 99.9}) {
    method.percentile = percentile;
    Range range = ChooseRange(even, method, {});
    EXPECT_NEAR(range.max, percentile * 1000, percentile);
    EXPECT_EQ(range.min, 1) << "cutting magnitudes goes no further than the values";
    range = ChooseRange(even, method, {ElementType::kUInt8, false});
    EXPECT_NEAR(range.max, (50 + percentile / 2) * 1000, percentile);
    EXPECT_NEAR(range.min, (50 - percentile / 2) * 1000, percentile);
  }
  method.percentile = 100;
  EXPECT_EQ(ChooseRange(even, method, {}), (Range{1, 100'000}));
  EXPECT_EQ(ChooseRange(even, method, {ElementType::kUInt8, false}), (Range{1, 100'000}));
  // Values that are clipped at the end count in full.
  method.percentile = 99;
  const TensorStatistics clipped = Draw(std::normal_distribution<double>(-9, 1), 1000, -6.0f);
  EXPECT_EQ(ChooseRange(clipped, method, {}).min, -6);
}

TEST(RangeMethodsTest, RangesLieWithinTheValuesAndGrowWithThePercentile) {
  for (const TensorStatistics& statistics : Distributions()) {
    for (const IntegerSpec& spec : Specs()) {
      Range last{0, 0};
      for (const double percentile : {50.1, 75.0, 90.0, 99.0, 99.9, 99.99, 99.9999, 100.0}) {
        const Range range =
            ChooseRange(statistics, {.kind = Kind::kPercentile, .percentile = percentile}, spec);
        EXPECT_LE(statistics.min(), range.min);
        EXPECT_GE(statistics.max(), range.max);
        EXPECT_LE(range.min, range.max);
        if (percentile > 51) {
          EXPECT_LE(range.min, last.min);
          EXPECT_GE(range.max, last.max);
        }
        last = range;
      }
    }
    const Range range = ChooseRange(statistics, {.kind = Kind::kEntropy}, {});
    EXPECT_LE(statistics.min(), range.min);
    EXPECT_GE(statistics.max(), range.max);
  }
}

// Returns the least error of all ranges of a fine grid. The ends of asymmetric types move alone.
double BruteForce(const TensorStatistics& statistics, const ErrorEstimator& estimator,
                  const IntegerSpec& spec) {
  constexpr int kGrid = 64;
  const double min = std::min(statistics.min(), 0.0f);
  const double max = std::max(statistics.max(), 0.0f);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= kGrid; ++i) {
    for (int k = 1; k <= kGrid; ++k) {
      if (spec.is_symmetric && k != i) continue;
      const QParams params = formats::QParamsForRange(min * i / kGrid, max * k / kGrid, spec);
      least = std::min(least, ErrorOf(estimator, params, spec));
    }
  }
  return least;
}

void ExpectMseIsNearlyAsGoodAsBruteForce(const std::vector<IntegerSpec>& specs) {
  for (const TensorStatistics& statistics : Distributions()) {
    const ErrorEstimator estimator(statistics);
    for (const IntegerSpec& spec : specs) {
      const QParams params = ChooseQParams(statistics, {.kind = Kind::kMse}, spec);
      // If all values are one, a range of the grid may happen to hit it and have no error.
      const double chance = 0.002 * params.scale * params.scale / 12;
      EXPECT_LE(ErrorOf(estimator, params, spec),
                1.02 * BruteForce(statistics, estimator, spec) + chance)
          << Text(spec) << ", values from " << statistics.min() << " to " << statistics.max();
    }
  }
}

TEST(MseTest, NearlyAsGoodAsBruteForce) {
  ExpectMseIsNearlyAsGoodAsBruteForce({{ElementType::kUInt4, true},
                                       {ElementType::kInt8, true},
                                       {ElementType::kInt16, true},
                                       {ElementType::kInt8, true, false, ScaleKind::kInt16}});
}

// The ends of asymmetric ranges move alone, which makes the grid large.
TEST(MseTest, NearlyAsGoodAsTheWholeGridOfAsymmetricRanges) {
  ExpectMseIsNearlyAsGoodAsBruteForce({{ElementType::kUInt4, false},
                                       {ElementType::kInt8, false},
                                       {ElementType::kInt16, false},
                                       {ElementType::kUInt4, false, false, ScaleKind::kInt16}});
}

TEST(MseTest, OfPowersOfTwoTheLeastErrorOfFivePositions) {
  for (const TensorStatistics& statistics : Distributions()) {
    const ErrorEstimator estimator(statistics);
    for (const ElementType type : {ElementType::kInt4, ElementType::kInt8, ElementType::kUInt8}) {
      const IntegerSpec spec{type, true, false, ScaleKind::kPowerOfTwo};
      const QParams params = ChooseQParams(statistics, {.kind = Kind::kMse}, spec);
      const formats::CodeRange codes = formats::UsedCodes(spec);
      const double scale =
          2.0 * statistics.AbsMax() / static_cast<double>(codes.quant_max - codes.quant_min);
      if (scale == 0) continue;
      const double position = std::rint(-std::log2(scale));
      double least = std::numeric_limits<double>::infinity();
      for (int offset = -1; offset <= 3; ++offset) {
        const auto candidate = static_cast<float>(std::exp2(-position - offset));
        least = std::min(least, ErrorOf(estimator, {candidate, params.zero_point}, spec));
      }
      EXPECT_EQ(ErrorOf(estimator, params, spec), least) << Text(spec);
    }
  }
}

TEST(MseTest, AsymmetricPowersOfTwoSearchTheZeroPoint) {
  const IntegerSpec spec{ElementType::kUInt8, false, false, ScaleKind::kPowerOfTwo};
  for (const TensorStatistics& statistics : Distributions()) {
    const ErrorEstimator estimator(statistics);
    const QParams params = ChooseQParams(statistics, {.kind = Kind::kMse}, spec);
    for (int64_t zero_point = 0; zero_point < 256; ++zero_point) {
      EXPECT_LE(ErrorOf(estimator, params, spec),
                1.02 * ErrorOf(estimator, {params.scale, zero_point}, spec));
    }
  }
}

void ExpectAutoIsTheBest(const TensorStatistics& statistics, const IntegerSpec& spec) {
  const ErrorEstimator estimator(statistics);
  const double least =
      ErrorOf(estimator, ChooseQParams(statistics, {.kind = Kind::kAuto}, spec), spec);
  for (const Kind kind : {Kind::kMinMax, Kind::kMovingAverage, Kind::kPercentile, Kind::kEntropy,
                          Kind::kMse, Kind::kLayerwisePercentile}) {
    const QParams params = ChooseQParams(statistics, {.kind = kind}, spec);
    EXPECT_LE(least, ErrorOf(estimator, params, spec)) << Text(spec);
    EXPECT_EQ(formats::AllowedScale(params.scale, spec.scale_kind), params.scale);
  }
}

TEST(RangeMethodsTest, AutoIsNoWorseThanAnyOther) {
  for (const TensorStatistics& statistics : Distributions()) {
    ExpectAutoIsTheBest(statistics, {ElementType::kUInt8, false});
  }
}

// Each type meets every other distribution.
TEST(WholeRangeMethods, AutoIsNoWorseThanAnyOtherForEveryType) {
  const std::vector<TensorStatistics> all = Distributions();
  const std::vector<IntegerSpec> specs = Specs();
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t k = i % 2; k < all.size(); k += 2) ExpectAutoIsTheBest(all[k], specs[i]);
  }
}

TEST(RangeMethodsTest, LayerwisePercentileTakesTheBestOfThree) {
  const TensorStatistics statistics = Draw(std::student_t_distribution<double>(2), 1'000'000);
  const ErrorEstimator estimator(statistics);
  const IntegerSpec spec;
  for (const auto error : {RangeMethod::Error::kMae, RangeMethod::Error::kMse}) {
    const auto error_of = [&](const QParams& params) {
      const formats::CodeRange codes = formats::IntegerRange(spec.element_type);
      return error == RangeMethod::Error::kMae ? estimator.MeanAbsolute(params, codes)
                                               : estimator.MeanSquared(params, codes);
    };
    const double chosen = error_of(
        ChooseQParams(statistics, {.kind = Kind::kLayerwisePercentile, .error = error}, spec));
    double least = std::numeric_limits<double>::infinity();
    for (const double percentile : {99.99, 99.999, 99.99999}) {
      const RangeMethod method{.kind = Kind::kPercentile, .percentile = percentile};
      least = std::min(least, error_of(ChooseQParams(statistics, method, spec)));
    }
    EXPECT_EQ(chosen, least);
  }
}

TEST(RangeMethodsTest, ValuesThatShareParametersAreMergedFirst) {
  TensorStatistics first = StatisticsOf({-1, 2});
  first.Merge(StatisticsOf({5, -0.5f}));
  EXPECT_EQ(ChooseRange(first, {}, {}), (Range{-1, 5}));
  for (const Kind kind : {Kind::kPercentile, Kind::kEntropy, Kind::kMse, Kind::kAuto}) {
    EXPECT_EQ(ChooseQParams(first, {.kind = kind}, {}),
              ChooseQParams(StatisticsOf({-1, 2, 5, -0.5f}), {.kind = kind}, {}));
  }
}

TEST(EntropyTest, ResamplingKeepsElementsAndTheirPlace) {
  for (const TensorStatistics& statistics : Distributions()) {
    const UniformHistogram histogram = ToUniform(statistics, 512);
    EXPECT_EQ(histogram.threshold, statistics.AbsMax());
    uint64_t total = 0;
    for (size_t i = 0; i < histogram.counts.size(); ++i) {
      EXPECT_GE(histogram.counts[i], 0);
      total += static_cast<uint64_t>(histogram.counts[i]);
      if (histogram.Edge(i + 1) < statistics.min() || histogram.Edge(i) > statistics.max()) {
        EXPECT_EQ(histogram.counts[i], 0);
      }
    }
    EXPECT_EQ(total, statistics.num_finite());
  }
}

TEST(EntropyTest, AsManyBinsAsQuantizedOnesLeaveNoChoice) {
  const TensorStatistics statistics = Draw(std::normal_distribution<double>(0, 1), 10'000);
  EXPECT_EQ(LeastDivergence(ToUniform(statistics, 128), 128), (BinRange{0, 128}));
}

TEST(Float8Test, Scales) {
  const TensorStatistics statistics = Draw(std::normal_distribution<double>(0, 2), 100'000);
  const formats::FormatSpec e4m3 = formats::FindFormat("fp8_e4m3");
  EXPECT_FLOAT_EQ(ChooseFloatScale(statistics, {}, e4m3), statistics.AbsMax() / 448);
  EXPECT_FLOAT_EQ(ChooseFloatScale(statistics, {}, formats::FindFormat("fp8_e5m2")),
                  statistics.AbsMax() / 57344);
  // The deviation of the finite values of E4M3FN, as numpy gives it: 100.05738.
  EXPECT_NEAR(ChooseFloatScale(statistics, {.kind = Kind::kDistribution}, e4m3),
              statistics.StandardDeviation() / 100.05738, 1e-6);
  EXPECT_EQ(ChooseFloatScale(StatisticsOf({0}), {}, e4m3), 1);
  EXPECT_THROW(ChooseFloatScale(statistics, {.kind = Kind::kMse}, e4m3), Error);
  EXPECT_THROW(ChooseQParams(statistics, {.kind = Kind::kDistribution}, {}), Error);
}

}  // namespace
}  // namespace bitpress::calibrate
