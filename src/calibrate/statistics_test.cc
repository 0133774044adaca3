#include "calibrate/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/test_support.h"
#include "calibrate/expected_error.h"
#include "calibrate/test_statistics.h"
#include "formats/float_bits.h"

namespace bitpress::calibrate {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

// Returns floats of any bits: all exponents, with NaN and infinities.
std::vector<float> RandomBits(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = formats::FloatFromBits(static_cast<uint32_t>(random()));
  return values;
}

std::vector<float> OffCenterNormal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.5f, 2.0f);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

TEST(TensorStatistics, IsEmptyAtFirst) {
  const TensorStatistics statistics;
  EXPECT_TRUE(statistics.is_empty());
  EXPECT_EQ(statistics.num_elements(), 0u);
  EXPECT_TRUE(statistics.Bins().empty());
  EXPECT_TRUE(StatisticsOf({kNan, kInfinity}).is_empty());
}

TEST(TensorStatistics, CountsSpecials) {
  const TensorStatistics statistics = StatisticsOf(
      {kNan, -kNan, kInfinity, -kInfinity, -kInfinity, 0.0f, -0.0f, 1.0f, -2.0f, kSmallest});
  EXPECT_EQ(statistics.num_elements(), 10u);
  EXPECT_EQ(statistics.num_nan(), 2u);
  EXPECT_EQ(statistics.num_positive_infinity(), 1u);
  EXPECT_EQ(statistics.num_negative_infinity(), 2u);
  EXPECT_EQ(statistics.num_zeros(), 2u);
  EXPECT_EQ(statistics.num_finite(), 5u);
  EXPECT_EQ(statistics.min(), -2.0f);
  EXPECT_EQ(statistics.max(), 1.0f);
  EXPECT_EQ(statistics.AbsMax(), 2.0f);
  EXPECT_EQ(statistics.SumOfSquares(), 5.0);
}

TEST(TensorStatistics, ZeroHasNoSign) {
  EXPECT_FALSE(std::signbit(StatisticsOf({-0.0f}).min()));
  EXPECT_FALSE(std::signbit(StatisticsOf({-1.0f, -0.0f}).max()));
  EXPECT_EQ(StatisticsOf({-0.0f}), StatisticsOf({0.0f}));
}

TEST(TensorStatistics, BinsHoldTheirElementsInOrder) {
  std::vector<float> values = RandomBits(20000, 1);
  values.insert(values.end(), {0.0f, -0.0f, kSmallest, -kSmallest, kLargest, -kLargest});
  const std::vector<Bin> bins = StatisticsOf(values).Bins();
  std::erase_if(values, [](float x) { return !formats::IsFinite(x); });
  std::ranges::sort(values);
  size_t position = 0;
  double last = -std::numeric_limits<double>::infinity();
  for (const Bin& bin : bins) {
    EXPECT_GE(bin.lower, last);
    last = bin.upper;
    EXPECT_GE(bin.center(), bin.lower);
    EXPECT_LE(bin.upper - bin.lower,
              std::max(std::ldexp(1.0, -134), std::fabs(bin.center()) / kBinsPerExponent));
    for (uint64_t i = 0; i < bin.count; ++i, ++position) {
      const double x = formats::ToDouble(values[position]);
      ASSERT_GE(x, bin.lower);
      ASSERT_LE(x, bin.upper);
      ASSERT_TRUE(x <= 0 || x < bin.upper);
      ASSERT_TRUE(x >= 0 || x > bin.lower);
    }
  }
  EXPECT_EQ(position, values.size());
}

TEST(TensorStatistics, MagnitudeBinsAreBothSides) {
  const TensorStatistics statistics = StatisticsOf({-3.0f, 3.0f, 3.0f, 0.0f, -1e-40f});
  const std::vector<Bin> bins = statistics.MagnitudeBins();
  ASSERT_EQ(bins.size(), 3u);
  EXPECT_EQ(bins[0].upper, 0.0);
  EXPECT_EQ(bins[1].count, 1u);
  EXPECT_EQ(bins[2].lower, 3.0);
  EXPECT_EQ(bins[2].upper, 3.0 + 2.0 / 256);
  EXPECT_EQ(bins[2].count, 3u);
}

TEST(TensorStatistics, MomentsAreThoseOfTheElements) {
  const std::vector<float> values = OffCenterNormal(5000, 3);
  const TensorStatistics statistics = StatisticsOf(values);
  long double sum = 0;
  long double squares = 0;
  for (const float x : values) {
    sum += x;
    squares += static_cast<long double>(x) * x;
  }
  EXPECT_NEAR(statistics.Sum(), static_cast<double>(sum), 1e-9);
  EXPECT_NEAR(statistics.SumOfSquares(), static_cast<double>(squares), 1e-8);
  EXPECT_NEAR(statistics.Mean(), 0.5, 0.1);
  EXPECT_NEAR(statistics.StandardDeviation(), 2.0, 0.1);
}

// Elements counted in one, or cut anywhere and merged in any order, give the same statistics.
TEST(TensorStatistics, MergesExactly) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> values = round % 2 == 0
                                    ? RandomBits(3000, 100u + static_cast<uint32_t>(round))
                                    : OffCenterNormal(3000, static_cast<uint32_t>(round));
    TensorStatistics whole;
    whole.set_axis(1);
    whole.Add(values);
    for (size_t i = 0; i < values.size(); i += 6) {
      const std::vector<float> sample(values.begin() + static_cast<std::ptrdiff_t>(i),
                                      values.begin() + static_cast<std::ptrdiff_t>(i) + 6);
      const std::vector<int64_t> dims = {1, 3, 2};
      whole.AddSlices(sample, dims);
      Extremes extremes;
      for (const float x : sample) {
        if (formats::IsFinite(x)) extremes.Add({x, x});
      }
      whole.AddSample(extremes);
    }
    std::vector<size_t> samples(values.size() / 6);
    std::iota(samples.begin(), samples.end(), 0);
    std::ranges::shuffle(samples, random);
    TensorStatistics merged;
    while (!samples.empty()) {
      TensorStatistics part;
      part.set_axis(1);
      const size_t count = std::min<size_t>(samples.size(), random() % 100);
      for (size_t k = 0; k < count; ++k) {
        const std::span<const float> sample(values.data() + samples.back() * 6, 6);
        samples.pop_back();
        part.Add(sample);
        const std::vector<int64_t> dims = {1, 3, 2};
        part.AddSlices(sample, dims);
        Extremes extremes;
        for (const float x : sample) {
          if (formats::IsFinite(x)) extremes.Add({x, x});
        }
        part.AddSample(extremes);
      }
      if (random() % 2 == 0) {
        merged.Merge(part);
      } else {
        part.Merge(merged);
        merged = part;
      }
    }
    ASSERT_EQ(whole, merged);
  }
}

TEST(TensorStatistics, AveragesExtremesOfSamples) {
  TensorStatistics statistics;
  statistics.AddSample({-1.0f, 2.0f});
  statistics.AddSample({-3.0f, 8.0f});
  statistics.AddSample({});
  EXPECT_EQ(statistics.num_samples(), 2u);
  EXPECT_EQ(statistics.MeanOfMinima(), -2.0);
  EXPECT_EQ(statistics.MeanOfMaxima(), 5.0);
}

// [samples, heads, positions, channels], as key-value caches are.
TEST(TensorStatistics, SlicesOfHeadsHaveHistograms) {
  TensorStatistics statistics;
  statistics.set_axis(-1, 1);
  std::vector<float> values(2 * 2 * 3 * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  values[5] = kNan;
  statistics.AddSlices(values, std::vector<int64_t>{2, 2, 3, 2});
  statistics.AddSlices(std::vector<float>{-0.25F, 0}, std::vector<int64_t>{2});  // has no such axes
  const std::vector<SliceStatistics>& slices = statistics.axis_statistics()->slices;
  ASSERT_EQ(slices.size(), 4u);
  // Head 0, channel 1: 1, 3 and NaN of the first sample, 13, 15, 17 of the second one.
  EXPECT_EQ(slices[1].num_finite, 5u);
  EXPECT_EQ(slices[1].extremes, (Extremes{1, 17}));
  EXPECT_EQ(slices[2].extremes, (Extremes{6, 22}));
  std::vector<uint64_t> expected(kSliceBins);
  for (const float x : {1.0F, 3.0F, 13.0F, 15.0F, 17.0F}) ++expected[MagnitudeBinOf(x)];
  EXPECT_EQ(slices[1].magnitudes, expected);
  EXPECT_EQ(MagnitudeBinOf(-17.0F), MagnitudeBinOf(16.0F));  // [16, 18)
  EXPECT_EQ(LowerEdgeOf(MagnitudeBinOf(17)), 16);
  EXPECT_EQ(LowerEdgeOf(MagnitudeBinOf(17) + 1), 18);
  EXPECT_EQ(MagnitudeBinOf(0), 0u);
  EXPECT_EQ(MagnitudeBinOf(1e30F), kSliceBins - 1);

  // The expected error of a slice is that of its elements, but for their places within bins.
  const ErrorEstimator estimator(slices[1]);
  const formats::CodeRange codes{-7, 7};
  double error = 0;
  for (const double x : {1.0, 3.0, 13.0, 15.0, 17.0}) {
    const double rounded = 2 * std::min(std::nearbyint(x / 2), 7.0);
    error += (x - rounded) * (x - rounded) / 5;
  }
  EXPECT_NEAR(estimator.MeanSquared({2, 0}, codes), error, 0.35 * error);
}

TEST(TensorStatistics, SlicesFollowTheAxis) {
  TensorStatistics statistics;
  statistics.set_axis(-2);
  statistics.AddSlices(std::vector<float>{1, -5, 2, kNan}, std::vector<int64_t>{1, 2, 2});
  statistics.AddSlices(std::vector<float>{7, 1, 1}, std::vector<int64_t>{3, 1});
  statistics.AddSlices(std::vector<float>{7}, std::vector<int64_t>{1});  // has no such axis
  const AxisStatistics& axis = *statistics.axis_statistics();
  ASSERT_EQ(axis.slices.size(), 3u);
  EXPECT_EQ(axis.slices[0].AbsMax(), 7.0f);
  EXPECT_EQ(axis.slices[0].extremes.min, -5.0f);
  EXPECT_EQ(axis.slices[0].sum.Round(), 3.0);
  EXPECT_EQ(axis.slices[1].num_finite, 2u);
  EXPECT_EQ(axis.slices[1].sum_of_squares.Round(), 5.0);
  TensorStatistics other;
  other.set_axis(1);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { statistics.Merge(other); }),
              testing::HasSubstr("axis -2"));
}

// Compares the fast sums of slices with ExactSum for each element, over all exponents.
TEST(TensorStatistics, SlicesAddExactly) {
  for (const auto& [values, dims] :
       {std::pair{RandomBits(6000, 21), std::vector<int64_t>{5, 24, 50}},
        std::pair{OffCenterNormal(6000, 22), std::vector<int64_t>{250, 24}},
        std::pair{OffCenterNormal(200'000, 23), std::vector<int64_t>{1, 2, 100'000}}}) {
    const auto length = static_cast<size_t>(dims[1]);
    const size_t inner = dims.size() > 2 ? static_cast<size_t>(dims[2]) : 1;
    std::vector<SliceStatistics> wanted(length);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!formats::IsFinite(values[i])) continue;
      SliceStatistics& slice = wanted[i / inner % length];
      ++slice.num_finite;
      slice.extremes.Add({values[i] + 0.0F, values[i] + 0.0F});
      slice.sum.Add(values[i]);
      slice.sum_of_squares.AddSquare(values[i]);
    }
    TensorStatistics alone, together;
    alone.set_axis(1);
    together.set_axis(1);
    alone.AddSlices(values, dims);
    together.AddSlices(values, dims, [](size_t num_tasks, const std::function<void(size_t)>& task) {
      for (size_t i = num_tasks; i-- > 0;) task(i);
    });
    EXPECT_EQ(alone.axis_statistics()->slices, wanted);
    EXPECT_EQ(together.axis_statistics()->slices, wanted);
  }
}

}  // namespace
}  // namespace bitpress::calibrate
