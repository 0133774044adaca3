#include "plan/target_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "base/error.h"
#include "plan/make_plan.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

TEST(TargetProfile, EveryBuiltInFileIsRead) {
  for (const auto& [name, text] : BuiltInTargets()) {
    const TargetProfile profile = ProfileOf(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_NE(profile.meaning, "") << name;
    for (const TargetRule& rule : profile.rules) {
      EXPECT_NE(rule.says, "") << name;
      EXPECT_NE(rule.source, "") << name << ": " << rule.says;
    }
  }
}

TEST(TargetProfile, RemediesNameConfigurationsThatExist) {
  const std::regex first("--config ([A-Za-z0-9_]+)");
  const std::regex more("^(?:, | or )([A-Za-z0-9_]+)");
  size_t num_names = 0;
  for (const auto& [target, text] : BuiltInTargets()) {
    for (const TargetRule& rule : ProfileOf(target).rules) {
      std::string rest = rule.remedy;
      std::smatch match;
      for (bool is_first = true; std::regex_search(rest, match, is_first ? first : more);
           is_first = false, ++num_names) {
        EXPECT_NO_THROW(ConfigByName(match[1].str())) << target << ": " << rule.remedy;
        rest = match.suffix();
      }
    }
  }
  EXPECT_GT(num_names, 10U);
}

TEST(TargetProfile, NamesWhatIsWrongInAFile) {
  const auto error = [](const std::string& rest) -> std::string {
    try {
      TargetFromJson(R"({"bitpress_target": 1, "name": "phone")" + rest + "}", "'phone.json'");
    } catch (const Error& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
      return refused.what();
    }
    return "";
  };
  const auto rule = [](const std::string& conditions) {
    return R"(, "tensor_rules": [{"wants": )" + conditions + R"(, "says": "s", "source": "me"}])";
  };
  EXPECT_EQ(error(""), "");
  EXPECT_EQ(error(R"(, "like": "qnn")" + rule(R"({"formats": ["int8"]})")), "");
  EXPECT_THAT(error(R"(, "lik": "qnn")"),
              HasSubstr("'phone.json': unknown key 'lik' (did you mean 'like'?)"));
  EXPECT_THAT(error(R"(, "like": "qmn")"), HasSubstr("did you mean 'qnn'?"));
  EXPECT_THAT(error(R"(, "storage": "dense")"),
              HasSubstr("storage 'dense' is not one of packed|simulated|qdq"));
  EXPECT_THAT(error(R"(, "settings": [{"key": "weightz", "to": "int8"}])"),
              HasSubstr("settings[0]: there is no setting 'weightz' (did you mean 'weights'?)"));
  EXPECT_THAT(
      error(rule(R"({"format": ["int8"]})")),
      HasSubstr("tensor_rules[0], 'wants': unknown key 'format' (did you mean 'formats'?)"));
  EXPECT_THAT(error(rule(R"({"symmetric": "yes"})")),
              HasSubstr("'symmetric' must be true or false, found \"yes\""));
  EXPECT_THAT(error(rule(R"({"range_at_least": [1, 2]})")),
              HasSubstr("'range_at_least' must be one number"));
  EXPECT_THAT(error(rule(R"({"scales": [0]})")), HasSubstr("'scales' must be finite and above 0"));
  EXPECT_THAT(error(rule(R"({"scales": [1e300]})")), HasSubstr("'scales' must be finite"));
  EXPECT_THAT(error(rule("{}")), HasSubstr("neither 'if' nor 'wants'"));
  EXPECT_THAT(error(R"(, "bitpress_target": 1)"), HasSubstr("appears twice"));
  EXPECT_THAT(error(R"(, "tensor_rules": [{"wants": {"symmetric": true}, "says": "s"}])"),
              HasSubstr("the key 'source' is missing"));
}

TEST(TargetProfile, WhatIsLikeAnotherHasItsRulesAndMore) {
  const TargetProfile qnn = ProfileOf("qnn");
  const TargetProfile phone = TargetFromJson(
      R"({"bitpress_target": 1, "name": "phone", "like": "qnn", "storage": "packed", "model_rules":
         [{"wants": {"opset": [1, 17]}, "says": "takes opset 17", "source": "me"}]})",
      "phone");
  EXPECT_EQ(phone.rules.size(), qnn.rules.size() + 1);
  EXPECT_EQ(phone.settings.size(), qnn.settings.size());
  EXPECT_EQ(phone.storage, Storage::kPacked);
  EXPECT_EQ(phone.meaning, qnn.meaning);
}

TEST(TargetProfile, ARuleMayBeBrokenByWhatHasNoWords) {
  const TargetProfile phone = TargetFromJson(
      R"({"bitpress_target": 1, "name": "phone", "node_rules":
         [{"if": {"decodes_for_floats": false}, "says": "takes nothing", "source": "me"}]})",
      "phone");
  const graph::Model model = LoadModel("convnet.onnx");
  const BrokenRules broken =
      RulesBrokenBy(phone, MakePlan(ConfigByName("INT8"), model, "model"), model);
  ASSERT_FALSE(broken.refused.empty());
  EXPECT_THAT(broken.refused[0], HasSubstr("what it does not take; it takes nothing (me)"));
}

TEST(TargetProfile, ScalesThatAreNoCodesAreNotFixed) {
  const graph::Model model = LoadModel("convnet.onnx");
  const auto plan_with = [&](const std::string& zero_point) {
    const TargetProfile phone = TargetFromJson(
        R"({"bitpress_target": 1, "name": "phone", "tensor_rules":
           [{"if": {"roles": ["activation"]}, "wants": {"scales": [0.5], "zero_points": [)" +
            zero_point + R"(]}, "says": "s", "source": "me"}]})",
        "phone");
    QuantPlan plan = MakePlan(ConfigByName("INT8"), model, "model");
    FixScales(phone, model, plan);
    size_t num_fixed = 0;
    for (const TensorPlan& row : plan.tensors) {
      if (row.role != Role::kActivation || !row.integer) continue;
      if (row.integer->params) ++num_fixed;
    }
    return num_fixed;
  };
  EXPECT_GT(plan_with("3"), 0u);
  for (const char* const zero_point : {"3.5", "1000", "-1e300"}) {
    EXPECT_EQ(plan_with(zero_point), 0u) << zero_point;
  }
}

TEST(TargetProfile, QnnHasScalesForChannelsOfConvolutionsOnly) {
  const graph::Model model = LoadModel("attention.onnx");
  QuantConfig config = ConfigByName("INT8");
  ApplySetting(config, "weight_granularity", "per_axis");
  const TargetProfile qnn = ProfileOf("qnn");
  EXPECT_THAT(AdaptTo(qnn, config), testing::Contains(HasSubstr("weight_granularity=per_tensor")));
  EXPECT_NO_THROW(CheckRules(qnn, MakePlan(config, model, "model"), model));
  // Blocks were asked for, and stay.
  config = ConfigByName("INT4_WEIGHTS");
  EXPECT_THAT(AdaptTo(qnn, config), testing::Not(testing::Contains(HasSubstr("per_tensor"))));
}

TEST(TargetProfile, TargetsWithoutRulesChangeNothing) {
  for (const Target target :
       {Target::kAutomatic, Target::kPortable, Target::kOnnxRuntime, Target::kBitpress}) {
    QuantConfig config = ConfigByName("INT8");
    EXPECT_TRUE(AdaptTo(ProfileOf(target), config).empty());
    EXPECT_EQ(ToJson(config), ToJson(ConfigByName("INT8")));
  }
}

TEST(TargetProfile, TensorRtTakesSymmetricIntegers) {
  const graph::Model model = LoadModel("convnet.onnx");
  QuantConfig config = ConfigByName("INT8");
  EXPECT_THAT(AdaptTo(ProfileOf(Target::kTensorRt), config),
              testing::UnorderedElementsAre("activations=int8", "activation_symmetric=true",
                                            "weight_symmetric=true", "biases=none",
                                            "integer_kernels=vnni"));
  const QuantPlan plan = MakePlan(config, model, "model");
  EXPECT_NO_THROW(CheckRules(ProfileOf(Target::kTensorRt), plan, model));
  EXPECT_TRUE(std::ranges::none_of(plan.tensors, [](const TensorPlan& row) {
    return row.is_quantized() && row.role == Role::kBias;
  }));
}

TEST(TargetProfile, CudaTakesNoScalesOfRunTime) {
  const graph::Model model = LoadModel("convnet.onnx");
  EXPECT_NO_THROW(
      CheckRules(ProfileOf(Target::kCuda), MakePlan(ConfigByName("INT8"), model, "model"), model));
  EXPECT_NO_THROW(
      CheckRules(ProfileOf(Target::kCuda), MakePlan(ConfigByName("MX6"), model, "model"), model));
  try {
    CheckRules(ProfileOf(Target::kCuda), MakePlan(ConfigByName("INT8_DYNAMIC"), model, "model"),
               model);
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
      CheckRules(ProfileOf(Target::kOpenVino), PlanFor(model, config, settings), model);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(error("INT8", {}), "");
  EXPECT_EQ(error("INT8_WEIGHTS", {"weight_granularity=per_axis"}), "");
  EXPECT_THAT(error("MX6", {}), HasSubstr("format mx6"));
  EXPECT_EQ(error("MXFP4E2M1", {"activations=none"}), "");
  EXPECT_THAT(error("none", {"weights=uint2"}), HasSubstr("it takes integers of 4, 8 and 16 bits"));
  EXPECT_EQ(error("none", {"weights=int8", "weight_granularity=per_block", "weight_block_size=7"}),
            "");
  EXPECT_TRUE(ProfileOf(Target::kOpenVino).wants_whole_blocks());
}

TEST(TargetProfile, TensorRtNamesWhatItDoesNotTake) {
  const graph::Model model = LoadModel("convnet.onnx");
  const auto error = [&](const QuantPlan& plan) -> std::string {
    try {
      CheckRules(ProfileOf(Target::kTensorRt), plan, model);
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
