#include "calibrate/noisy_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace bitpress::calibrate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Roundings with a known noise each, which adds up.
class NoisyPartsTest : public testing::Test {
 protected:
  std::vector<NoisyPart> Find(size_t most_measurements) {
    const auto measure = [this](size_t begin, size_t end) {
      ++num_measured_;
      const auto first = noises_.begin();
      return std::vector<double>{std::accumulate(first + static_cast<ptrdiff_t>(begin),
                                                 first + static_cast<ptrdiff_t>(end), 0.0)};
    };
    const std::vector<double> all = measure(0, noises_.size());
    num_measured_ = 0;
    return FindNoisyParts(noises_.size(), all, {{kAllowed}, 0.25, most_measurements, measure});
  }

  static constexpr double kAllowed = 0.01;
  std::vector<double> noises_ = std::vector<double>(128, 1e-6);
  size_t num_measured_ = 0;
};

TEST_F(NoisyPartsTest, FindTheFewThatAreToBlame) {
  noises_[37] = 0.02;
  noises_[90] = 0.1;
  const std::vector<NoisyPart> parts = Find(512);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].begin, 90U);
  EXPECT_EQ(parts[0].size(), 1U);
  EXPECT_EQ(parts[1].begin, 37U);
  EXPECT_EQ(parts[1].size(), 1U);
}

TEST_F(NoisyPartsTest, OneHalfSaysWhatTheOtherOneBrings) {
  noises_[90] = 0.1;
  const std::vector<NoisyPart> parts = Find(8);
  EXPECT_EQ(num_measured_, 7U);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].begin, 90U);
  EXPECT_EQ(parts[0].size(), 1U);
}

TEST_F(NoisyPartsTest, TooFewMeasurementsLeaveGroups) {
  noises_.assign(128, 0.002);
  const std::vector<NoisyPart> parts = Find(6);
  EXPECT_LE(num_measured_, 7U);
  ASSERT_FALSE(parts.empty());
  size_t covered = 0;
  for (const NoisyPart& part : parts) covered += part.size();
  EXPECT_EQ(covered, 128U);
}

// An error that is as large as the output does not grow any more.
TEST_F(NoisyPartsTest, MeasureBothHalvesWhereErrorsDoNotAddUp) {
  noises_[37] = 0.9;
  noises_[90] = 0.9;
  const std::vector<NoisyPart> parts = Find(40);
  size_t num_single = 0;
  for (const NoisyPart& part : parts) num_single += part.size() == 1 ? 1U : 0U;
  EXPECT_EQ(num_single, 2U);
}

TEST_F(NoisyPartsTest, QuietRoundingsAreNoneToBlame) { EXPECT_THAT(Find(512), IsEmpty()); }

}  // namespace
}  // namespace bitpress::calibrate
