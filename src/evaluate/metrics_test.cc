#include "evaluate/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "evaluate/loss.h"

namespace bitpress::evaluate {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;

OutputComparison Compare(const Values& reference, const Values& output) {
  OutputComparison comparison;
  comparison.Add(reference, output);
  return comparison;
}

TEST(Rank, CountsHigherScoresAndBreaksTiesByTheLowerIndex) {
  const Values scores = {0.5, 2.0, 0.5, -1.0, 2.0};
  EXPECT_EQ(RankOf(scores, 0), 2u);
  EXPECT_EQ(RankOf(scores, 1), 0u);
  EXPECT_EQ(RankOf(scores, 2), 3u);
  EXPECT_EQ(RankOf(scores, 3), 4u);
  EXPECT_EQ(RankOf(scores, 4), 1u);
  EXPECT_EQ(TopClass(scores), 1u);
}

TEST(Rank, InfinityIsAScoreButNanIsNone) {
  EXPECT_EQ(TopClass(Values{1.0, kInfinity, -kInfinity}), 1u);
  EXPECT_EQ(RankOf(Values{1.0, kInfinity, -kInfinity}, 2), 2u);
  EXPECT_EQ(TopClass(Values{1.0, kNan, 3.0}), std::nullopt);
  EXPECT_EQ(RankOf(Values{1.0, kNan, 3.0}, 2), std::nullopt);
}

TEST(RankCounter, Shares) {
  RankCounter counter;
  for (const size_t rank : {0u, 4u, 5u}) counter.Add(rank);
  counter.Add(std::nullopt);
  EXPECT_EQ(counter.num_samples(), 4u);
  EXPECT_EQ(counter.Top1(), 0.25);
  EXPECT_EQ(counter.Top5(), 0.5);
}

TEST(OutputComparison, KnownSqnr) {
  // An error of a tenth of the amplitude is 20 dB, of all of it 0 dB, of twice of it -6.02 dB.
  EXPECT_NEAR(Compare({3, -4, 0}, {2.7, -3.6, 0}).SqnrDb(), 20.0, 1e-9);
  EXPECT_NEAR(Compare({3, -4, 0}, {0, 0, 0}).SqnrDb(), 0.0, 1e-12);
  EXPECT_NEAR(Compare({1, 1}, {-1, -1}).SqnrDb(), -20 * std::log10(2.0), 1e-12);
  EXPECT_EQ(Compare({1, 2}, {1, 2}).SqnrDb(), kInfinity);
  EXPECT_EQ(Compare({0, 0}, {1, 2}).SqnrDb(), -kInfinity);
}

TEST(OutputComparison, SqnrSumsOverAllSamplesAndCosineIsTheirMean) {
  OutputComparison comparison;
  comparison.Add(Values{3, 4}, Values{3, 4});
  comparison.Add(Values{1, 0}, Values{0, 1});
  // Signal 25 + 1, noise 0 + 2; cosines 1 and 0.
  EXPECT_NEAR(comparison.SqnrDb(), 10 * std::log10(13.0), 1e-12);
  EXPECT_NEAR(comparison.Cosine(), 0.5, 1e-12);
  EXPECT_EQ(comparison.num_values(), 4u);
  EXPECT_EQ(comparison.num_samples(), 2u);
}

TEST(OutputComparison, Cosine) {
  EXPECT_NEAR(Compare({1, 1}, {1, 0}).Cosine(), std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(Compare({1, 2, 3}, {-2, -4, -6}).Cosine(), -1.0, 1e-12);
  EXPECT_LE(Compare({0.1, 0.7, 0.3}, {0.3, 2.1, 0.9}).Cosine(), 1.0);
  EXPECT_EQ(Compare({0, 0}, {0, 0}).Cosine(), 1.0);
  EXPECT_EQ(Compare({0, 0}, {1, 0}).Cosine(), 0.0);
}

TEST(OutputComparison, LargeValuesDoNotOverflow) {
  const double largest = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_NEAR(Compare({largest, largest}, {largest * 0.9, largest * 0.9}).SqnrDb(), 20.0, 1e-9);
  EXPECT_NEAR(Compare({largest}, {largest}).Cosine(), 1.0, 1e-12);
}

TEST(OutputComparison, IdenticalMeansEveryValue) {
  EXPECT_TRUE(Compare({1, kNan, kInfinity, 0.0}, {1, kNan, kInfinity, -0.0}).is_identical());
  EXPECT_FALSE(Compare({1, 2}, {1, std::nextafter(2.0, 3.0)}).is_identical());
  EXPECT_FALSE(Compare({1, kNan}, {1, 2}).is_identical());
  EXPECT_FALSE(Compare({1, kInfinity}, {1, -kInfinity}).is_identical());
}

TEST(OutputComparison, AValueThatIsLostIsAnInfiniteError) {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    OutputComparison comparison = Compare({3, 4}, {3, bad});
    EXPECT_TRUE(comparison.has_lost());
    EXPECT_EQ(comparison.SqnrDb(), -kInfinity);
    EXPECT_EQ(comparison.NoiseRatio(), kInfinity);
    EXPECT_EQ(comparison.MeanL2(), kInfinity);
    EXPECT_EQ(comparison.Cosine(), 0);
    comparison.Add(Values{3, 4}, Values{3, 4});  // others do not make up for it
    EXPECT_EQ(comparison.SqnrDb(), -kInfinity);
    EXPECT_EQ(comparison.Cosine(), 0.5);
  }
  // A value whose reference is no number is left out.
  EXPECT_NEAR(Compare({3, kNan}, {2.7, 5}).SqnrDb(), 20.0, 1e-9);
  EXPECT_FALSE(Compare({3, kNan}, {2.7, kNan}).has_lost());
}

TEST(LossMeter, AValueThatIsLostIsAnInfiniteLoss) {
  const std::vector<Output> reference = {{.dims = {2, 2}, .values = {1, 2, 3, 4}}};
  const std::vector<Output> outputs = {{.dims = {2, 2}, .values = {1, 2, 3, kNan}}};
  LossMeter meter;
  meter.Add(reference, outputs, 2);
  EXPECT_EQ(meter.Result().noise, kInfinity);
  EXPECT_EQ(meter.Result().divergence, kInfinity);
  EXPECT_EQ(meter.Result().agreement, 0.5);
}

TEST(LossMeter, RefusesOutputsWhoseShapeDependsOnValues) {
  const std::vector<Output> reference = {{.dims = {3, 2}, .values = {1, 2, 3, 4, 5, 6}}};
  const std::vector<Output> outputs = {{.dims = {1, 2}, .values = {1, 2}}};
  LossMeter meter;
  meter.Add(reference, reference, 1);
  EXPECT_EQ(meter.Result().noise, 0);
  try {
    meter.Add(reference, outputs, 1);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

TEST(ProbabilityOf, TakesProbabilitiesAsTheyAreAndTheSoftmaxOfOthers) {
  EXPECT_EQ(ProbabilityOf(Values{0.25, 0.75}, 1), 0.75);
  EXPECT_EQ(ProbabilityOf(Values{0.3, 0.705}, 1), 0.705);  // rounded ones
  EXPECT_NEAR(ProbabilityOf(Values{0, std::log(3.0)}, 1), 0.75, 1e-12);
  EXPECT_NEAR(ProbabilityOf(Values{1.5, -0.5}, 0), 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(ProbabilityOf(Values{0.9, 0.9}, 0), 0.5, 1e-12);  // sigmoids
}

TEST(ExpectedTop1, CountsAnotherClassByHowLikelyTheReferenceFindsIt) {
  ExpectedTop1 expected;
  expected.Add(Values{0.7, 0.2, 0.1}, Values{9, 0, 0});
  expected.Add(Values{0.5, 0.4, 0.1}, Values{0, 9, 0});
  expected.Add(Values{0.9, 0.1, 0}, Values{0, 0, 9});
  EXPECT_EQ(expected.num_samples(), 3u);
  EXPECT_NEAR(expected.Reference(), (0.7 + 0.5 + 0.9) / 3, 1e-12);
  EXPECT_NEAR(expected.Model(), (0.7 + 0.4 + 0) / 3, 1e-12);
  EXPECT_TRUE(expected.IsMeaningful());
  expected.Add(Values{0.9, 0.1, 0}, Values{kNan, 0, 9});  // it ranks nothing
  EXPECT_NEAR(expected.Reference(), (0.7 + 0.5 + 0.9 + 0.9) / 4, 1e-12);
  EXPECT_NEAR(expected.Model(), (0.7 + 0.4) / 4, 1e-12);
}

TEST(ExpectedTop1, SaysNothingWhereTheReferenceIsHardlySurerThanChance) {
  for (const double likeliest : {0.33, 0.34}) {
    ExpectedTop1 expected;  // of 1000 classes: chance is 0.001
    Values reference(1000, (1 - likeliest) / 999);
    reference[5] = likeliest;
    expected.Add(reference, reference);
    EXPECT_EQ(expected.IsMeaningful(), likeliest > 0.334) << likeliest;
  }
  ExpectedTop1 of_two;
  of_two.Add(Values{0.6, 0.4}, Values{0.6, 0.4});
  EXPECT_FALSE(of_two.IsMeaningful());
}

TEST(Median, OddAndEven) {
  EXPECT_EQ(Median({3, 1, 2}), 2.0);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({7}), 7.0);
}

}  // namespace
}  // namespace bitpress::evaluate
