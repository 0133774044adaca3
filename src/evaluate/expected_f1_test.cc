#include "evaluate/expected_f1.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_support.h"

namespace bitpress::evaluate {
namespace {

ExpectedF1 Of(const std::vector<ExpectedBoxes>& samples) {
  ExpectedF1 expected;
  for (const ExpectedBoxes& sample : samples) expected.Add(sample);
  return expected;
}

TEST(ExpectedF1, IsThatOfTheScores) {
  // Two boxes with scores of 0.9 and 0.5, and one of 0.1 that does not count. The other model finds
  // the first one, at nine of ten thresholds.
  const ExpectedF1 expected = Of({{2, 1, 1.5, 1.4, 0.9 * 0.9}});
  EXPECT_DOUBLE_EQ(expected.Reference(), 2 * 1.4 / 3.5);
  EXPECT_DOUBLE_EQ(expected.Model(), 2 * 0.81 / 2.5);
  EXPECT_DOUBLE_EQ(Of({}).Model(), 0);
}

TEST(ExpectedF1, IsBoundByTheSpreadOfSamples) {
  const ExpectedBoxes same = {2, 2, 2, 1.8, 1.8}, worse = {2, 2, 2, 1.8, 1.6};
  EXPECT_DOUBLE_EQ(Of({same, same, same}).DropAtMost(), 0);
  EXPECT_NEAR(Of({worse, worse, worse}).DropAtMost(), 0.2 / 1.8, 1e-12);
  // Without one of the samples, the drop is 0.1 / 1.8 or 0 or 0.2 / 1.8.
  const double mean = 0.1 / 1.8, deviation = std::sqrt(0.5 * 2 * mean * mean);
  EXPECT_NEAR(Of({same, worse}).DropAtMost(), mean + 1.64 * deviation, 1e-12);
  EXPECT_DOUBLE_EQ(Of({{}, {}}).DropAtMost(), 0);
}

TEST(ExpectedF1, DoesNotDependOnTheOrderOfSamples) {
  std::vector<ExpectedBoxes> samples;
  for (int i = 1; i < 9; ++i) samples.push_back({3, 2.0 + i % 2, 2 + 0.1 * i, 2, 1.7 + 0.01 * i});
  const ExpectedF1 one = Of(samples);
  std::ranges::reverse(samples);
  ExpectedF1 other = Of({samples.begin(), samples.begin() + 3});
  other.Add(Of({samples.begin() + 3, samples.end()}));
  EXPECT_EQ(other.DropAtMost(), one.DropAtMost());
  ByteWriter writer, of_other;
  one.Write(writer);
  other.Write(of_other);
  EXPECT_EQ(writer.bytes(), of_other.bytes());
  ByteReader reader(writer.bytes(), "file");
  EXPECT_EQ(ExpectedF1::Read(reader).DropAtMost(), one.DropAtMost());
}

TEST(ExpectedF1, RefusesWhatIsDamaged) {
  EXPECT_EQ(Of({{}, {}}).num_samples(), 2u);
  for (const double wrong : {-1.0, 0x1p54, double{INFINITY}, double{NAN}}) {
    ByteWriter writer;
    Of({{2, 1, wrong, 1, 1}}).Write(writer);
    ByteReader reader(writer.bytes(), "file");
    ExpectError(ErrorCode::kInvalidArgument, [&] { ExpectedF1::Read(reader); });
  }
}

TEST(ExpectedF1, CountsThresholds) {
  EXPECT_DOUBLE_EQ(ShareOfThresholds(0.49), 0);
  EXPECT_DOUBLE_EQ(ShareOfThresholds(0.5), 0.1);
  EXPECT_DOUBLE_EQ(ShareOfThresholds(0.74), 0.5);
  EXPECT_DOUBLE_EQ(ShareOfThresholds(0.95), 1);
}

}  // namespace
}  // namespace bitpress::evaluate
