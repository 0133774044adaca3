#include "plan/target_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

TEST(TargetProfile, EachTargetHasARowAndAWord) {
  for (const auto& [word, target] : TargetWords()) {
    EXPECT_EQ(ProfileOf(target).name, word);
    EXPECT_THAT(std::string(TargetHelp()), HasSubstr(std::string(word) + ": "));
    for (const TargetSetting& setting : ProfileOf(target).settings) {
      QuantConfig config;
      EXPECT_NO_THROW(ApplySetting(config, setting.key, setting.to)) << setting.key;
    }
  }
}

TEST(TargetProfile, TargetsWithoutRulesChangeNothing) {
  for (const Target target :
       {Target::kAutomatic, Target::kPortable, Target::kOnnxRuntime, Target::kBitpress}) {
    QuantConfig config = ConfigByName("INT8");
    EXPECT_TRUE(AdaptTo(target, config).empty());
    EXPECT_EQ(ToJson(config), ToJson(ConfigByName("INT8")));
  }
}

}  // namespace
}  // namespace bitpress::plan
