#include "plan/target_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "plan/make_plan.h"
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

TEST(TargetProfile, TensorRtTakesSymmetricIntegers) {
  const graph::Model model = LoadModel("convnet.onnx");
  QuantConfig config = ConfigByName("INT8");
  EXPECT_THAT(AdaptTo(Target::kTensorRt, config),
              testing::UnorderedElementsAre("activations=int8", "activation_symmetric=true",
                                            "weight_symmetric=true", "biases=none",
                                            "integer_kernels=vnni"));
  const QuantPlan plan = MakePlan(config, model, "model");
  EXPECT_NO_THROW(CheckRules(Target::kTensorRt, plan, model));
  EXPECT_TRUE(std::ranges::none_of(plan.tensors, [](const TensorPlan& row) {
    return row.is_quantized() && row.role == Role::kBias;
  }));
}

TEST(TargetProfile, CudaTakesNoScalesOfRunTime) {
  const graph::Model model = LoadModel("convnet.onnx");
  EXPECT_NO_THROW(CheckRules(Target::kCuda, MakePlan(ConfigByName("INT8"), model, "model"), model));
  EXPECT_NO_THROW(CheckRules(Target::kCuda, MakePlan(ConfigByName("MX6"), model, "model"), model));
  try {
    CheckRules(Target::kCuda, MakePlan(ConfigByName("INT8_DYNAMIC"), model, "model"), model);
    ADD_FAILURE() << "a scale of run time was taken";
  } catch (const Error& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(std::string(refused.what()), HasSubstr("target cuda does not take the plan"));
    EXPECT_THAT(std::string(refused.what()), HasSubstr("MatMulInteger"));
  }
}

TEST(TargetProfile, OpenVinoTakesIntegersThatNeedNoFunction) {
  const graph::Model model = LoadModel("convnet.onnx");
  const auto error = [&](const char* config,
                         const std::vector<std::string>& settings) -> std::string {
    try {
      CheckRules(Target::kOpenVino, PlanFor(model, config, settings), model);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(error("INT8", {}), "");
  EXPECT_EQ(error("INT8_WEIGHTS", {"weight_granularity=per_axis"}), "");
  EXPECT_THAT(error("MX6", {}), HasSubstr("format mx6"));
  EXPECT_THAT(error("none", {"weights=int4", "weight_granularity=per_block"}),
              HasSubstr("scales for blocks; weights of convolutions have one for each channel"));
  const graph::Model matmuls = LoadModel("attention.onnx");
  const QuantPlan plan = PlanFor(
      matmuls, "none", {"weights=int8", "weight_granularity=per_block", "weight_block_size=7"});
  try {
    CheckRules(Target::kOpenVino, plan, matmuls);
    ADD_FAILURE() << "blocks that do not divide the axis were taken";
  } catch (const Error& refused) {
    EXPECT_THAT(std::string(refused.what()), HasSubstr("blocks of 7 along"));
  }
}

TEST(TargetProfile, TensorRtNamesWhatItDoesNotTake) {
  const graph::Model model = LoadModel("convnet.onnx");
  const auto error = [&](const QuantPlan& plan) -> std::string {
    try {
      CheckRules(Target::kTensorRt, plan, model);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
      return refused.what();
    }
    return "";
  };
  const std::string of_blocks = error(PlanFor(model, "MX6"));
  EXPECT_THAT(of_blocks, HasSubstr("target tensorrt does not take the plan"));
  EXPECT_THAT(of_blocks, HasSubstr("format mx6; it takes int8 and fp8_e4m3"));
  EXPECT_THAT(of_blocks, HasSubstr("Conv"));
  EXPECT_THAT(error(PlanFor(model, "INT8")), HasSubstr("format uint8"));
  EXPECT_THAT(error(PlanFor(model, "INT8", {"activations=int8", "activation_symmetric=false"})),
              HasSubstr("a zero point"));
  EXPECT_THAT(error(PlanFor(model, "INT8", {"activations=int8"})), HasSubstr("bias"));
}

}  // namespace
}  // namespace bitpress::plan
