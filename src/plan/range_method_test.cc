#include "plan/range_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace bitpress::plan {
namespace {

using Kind = RangeMethod::Kind;

TEST(RangeMethod, WordsComeBack) {
  for (const char* word :
       {"min_max", "moving_average", "percentile(99.99)", "percentile(99.999)", "entropy", "mse",
        "distribution", "layerwise_percentile(mse)", "layerwise_percentile(mae)", "auto"}) {
    EXPECT_EQ(RangeMethodName(ParseRangeMethod(word)), word);
  }
  EXPECT_EQ(ParseRangeMethod("percentile").percentile, 99.999);
}

TEST(RangeMethod, OtherToolsWords) {
  EXPECT_EQ(ParseRangeMethod("MinMax").kind, Kind::kMinMax);
  EXPECT_EQ(ParseRangeMethod("MinMSE").kind, Kind::kMse);
  EXPECT_EQ(ParseRangeMethod("NonOverflow").kind, Kind::kMinMax);
  EXPECT_EQ(ParseRangeMethod("LayerwisePercentile(MSE)").error, RangeMethod::Error::kMse);
  EXPECT_EQ(ParseRangeMethod("KL").kind, Kind::kEntropy);
}

TEST(RangeMethod, MistakesAreExplained) {
  const auto message = [](std::string_view word) -> std::string {
    try {
      ParseRangeMethod(word);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("entropie"), testing::HasSubstr("entropy"));
  EXPECT_THAT(message("percentile(200)"), testing::HasSubstr("at most 100"));
  EXPECT_THAT(message("percentile(x)"), testing::HasSubstr("no percentile"));
  EXPECT_THAT(message("mse(3)"), testing::HasSubstr("have a parameter"));
  EXPECT_THAT(message("percentile(99"), testing::HasSubstr("no range method"));
  EXPECT_THAT(message(""), testing::HasSubstr("the methods are"));
}

}  // namespace
}  // namespace bitpress::plan
