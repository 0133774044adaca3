#include "base/output_error.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace bitpress {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

OutputError Compare(const std::vector<float>& reference, const std::vector<float>& output) {
  return CompareOutputs<float>(reference, output);
}

TEST(OutputError, IsInPartsOfTheReferencesEnergy) {
  const OutputError error = Compare({3, -4}, {3, -3});
  EXPECT_EQ(error.signal, 25);
  EXPECT_EQ(error.found, 18);
  EXPECT_EQ(error.product, 21);
  EXPECT_EQ(error.Noise(), 1.0 / 25);
  EXPECT_EQ(Compare({0, 0}, {0, 0}).Noise(), 0);
  EXPECT_EQ(Compare({0, 0}, {0, 1}).Noise(), std::numeric_limits<double>::infinity());
}

TEST(OutputError, AValueIsLostWhereTheReferenceIsANumberOnly) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    const OutputError lost = Compare({3, 4}, {3, bad});
    EXPECT_EQ(lost.num_lost, 1U);
    EXPECT_EQ(lost.Noise(), std::numeric_limits<double>::infinity());
    const OutputError left_out = Compare({3, bad}, {3, 1});
    EXPECT_EQ(left_out.num_lost, 0U);
    EXPECT_EQ(left_out.Noise(), 0);
  }
}

TEST(MeanNoise, SamplesCountAlike) {
  EXPECT_EQ(MeanNoise({}), 0);
  // A loud sample that is exact does not hide that the quiet ones are gone.
  const std::vector<OutputError> samples{Compare({1e9F}, {1e9F}), Compare({1}, {0}),
                                         Compare({1}, {0}), Compare({1}, {1})};
  EXPECT_EQ(MeanNoise(samples), 0.5);
  // No sample loses more than all.
  EXPECT_EQ(MeanNoise(std::vector{Compare({1}, {100}), Compare({1}, {1})}), 0.5);
}

TEST(MeanNoise, SilentSamplesHaveNothingToLose) {
  const std::vector<OutputError> samples{Compare({1}, {1}), Compare({1e-4F}, {0}),
                                         Compare({0}, {1}), Compare({1}, {1})};
  EXPECT_EQ(MeanNoise(samples), 0);
  EXPECT_EQ(MeanNoise(std::vector{Compare({0}, {kNan})}), 2);
}

TEST(MeanNoise, OneLostValueIsWorseThanEveryError) {
  const std::vector<OutputError> gone(4, Compare({1, 1}, {0, 0}));
  const std::vector<OutputError> lost{Compare({1, 1}, {1, kNan}), Compare({1}, {1}),
                                      Compare({1}, {1}), Compare({1}, {1})};
  EXPECT_EQ(MeanNoise(gone), 1);
  EXPECT_EQ(MeanNoise(lost), 1.25);
}

}  // namespace
}  // namespace bitpress
