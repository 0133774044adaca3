#include "plan/finetune_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/quant_config.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

std::string OptionErrorOf(std::string_view name, std::string_view value) {
  QuantConfig config;
  try {
    ApplyFinetuneOption(config, name, value);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FinetuneOptions, HonouredOnesAreSettings) {
  for (const FinetuneOption& option : AllFinetuneOptions()) {
    const bool is_setting = std::ranges::any_of(
        AllSettings(), [&](const Setting& setting) { return setting.key == option.setting; });
    EXPECT_EQ(is_setting, option.fate == OptionFate::kHonoured) << option.name;
    EXPECT_EQ(option.reason.empty(), option.fate == OptionFate::kHonoured) << option.name;
  }
}

TEST(FinetuneOptions, AreFoundInEverySpelling) {
  EXPECT_EQ(FindFinetuneOption("num_iterations").name, "NumIterations");
  EXPECT_EQ(FindFinetuneOption(" NUMITERATIONS ").name, "NumIterations");
  EXPECT_EQ(FindFinetuneOption("actorder").name, "ActOrder");
  EXPECT_THAT(OptionErrorOf("NumIteration", "3"), HasSubstr("did you mean 'NumIterations'"));
}

TEST(FinetuneOptions, SetWhatTheyStandFor) {
  QuantConfig config;
  EXPECT_EQ(ApplyFinetuneOption(config, "OptimAlgorithm", "adaround"), "");
  EXPECT_EQ(ApplyFinetuneOption(config, "data_size", "100"), "");
  EXPECT_EQ(ApplyFinetuneOption(config, "NumIterations", "7"), "");
  EXPECT_EQ(ApplyFinetuneOption(config, "TargetOpType", "Conv;Gemm"), "");
  EXPECT_EQ(FinetunePassNames(config.finetune), "adaround+bias_correction");
  EXPECT_EQ(config.finetune_settings.num_samples, 100);
  EXPECT_EQ(config.finetune_settings.num_rounds, 7);
  EXPECT_THAT(config.finetune_settings.op_types, testing::ElementsAre("Conv", "Gemm"));
  EXPECT_EQ(ConfigFromJson(ToJson(config)).finetune_settings, config.finetune_settings);
}

TEST(FinetuneOptions, SayWhatChangesNothingAndWhatIsRefused) {
  QuantConfig config;
  EXPECT_THAT(ApplyFinetuneOption(config, "LearningRate", "1e-5"), HasSubstr("without gradients"));
  EXPECT_EQ(config, QuantConfig{});
  EXPECT_THAT(OptionErrorOf("ref_model_path", "x.onnx"), HasSubstr("is the reference"));
  EXPECT_THAT(OptionErrorOf("NumIterations", "-1"), HasSubstr("-1 is less than 0"));
  EXPECT_THAT(OptionErrorOf("PercDamp", "0"), HasSubstr("no number over 0"));
}

TEST(FinetunePasses, AwqComesFirst) {
  EXPECT_EQ(FinetunePassNames(ParseFinetunePasses("awq")), "awq+clip_search+bias_correction");
  EXPECT_EQ(FinetunePassNames(ParseFinetunePasses("AWQ + gptq")), "awq+gptq");
  EXPECT_THROW(ParseFinetunePasses("gptq+awq"), Error);
  EXPECT_EQ(FinetunePassNames(ParseFinetunePasses("blocks")), "blocks");
  EXPECT_EQ(FinetunePassNames(ParseFinetunePasses("gptq+blocks")), "gptq+blocks");
  EXPECT_THROW(ParseFinetunePasses("blocks+gptq"), Error);
}

}  // namespace
}  // namespace bitpress::plan
