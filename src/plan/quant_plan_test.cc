#include "plan/quant_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string JsonErrorOf(const std::string& json) {
  try {
    FromJson(json);
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kRuntime);
    return error.what();
  }
  return "no error";
}

std::string MisfitOf(const QuantPlan& plan, const graph::Model& model) {
  try {
    CheckFits(plan, model);
  } catch (const Error& error) {
    EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::kInvalidArgument, ErrorCode::kUnsupported));
    return error.what();
  }
  return "fits";
}

constexpr const char* kRow =
    R"({"value": "x", "role": "activation", "format": "mx6", "axis": 1, "scale_choice": "ceil",)"
    R"( "rounding": "half_to_even", "uses": [{"node": "conv_0", "op_type": "Conv", "input": 0}]})";

std::string PlanText(const std::string& row) {
  return R"({"bitpress_plan": 1, "tensors": [)" + row + "]}";
}

TEST(PlanJson, RoundTripIsExact) {
  for (const char* model : {"convnet.onnx", "attention.onnx", "exotic.onnx", "fused.onnx",
                            "quantized.onnx", "shared.onnx", "nameless.onnx"}) {
    for (const char* format : {"MX6", "BF16", "MXFP4E2M1", "bfp(bits=13, block=16)"}) {
      QuantConfig config = ConfigByName(format);
      config.placement = Placement::kAll;
      config.weight_scale = formats::ScaleChoice::kEven;
      const QuantPlan plan = MakePlan(config, LoadModel(model), model);
      const std::string json = ToJson(plan);
      EXPECT_EQ(FromJson(json), plan) << json;
      EXPECT_EQ(ToJson(FromJson(json)), json);
    }
  }
}

TEST(PlanJson, RoundTripOfEveryPreset) {
  for (const Preset& preset : AllPresets()) {
    for (const char* model : {"convnet.onnx", "attention.onnx", "shared.onnx"}) {
      for (const char* setting :
           {"placement=default", "placement=all", "rounding=half_up", "reduce_range=true"}) {
        QuantConfig config = ConfigByName(preset.name);
        ApplySetting(config, setting);
        const auto is_float = [](const std::string& name) {
          return name != "none" && formats::FindFormat(name).has_float_elements();
        };
        const bool rounds_floats = is_float(config.activations) || is_float(config.weights);
        if (setting == std::string("rounding=half_up") && rounds_floats) continue;
        const QuantPlan plan = MakePlan(config, LoadModel(model), model);
        const std::string json = ToJson(plan);
        EXPECT_EQ(FromJson(json), plan) << preset.name << ", " << setting << ": " << json;
        EXPECT_EQ(ToJson(FromJson(json)), json) << preset.name;
      }
    }
  }
}

TEST(PlanJson, HowTheModelWasEqualizedAndRotated) {
  QuantConfig config = ConfigByName("MX6");
  ApplySetting(config, "equalize=on");
  ApplySetting(config, "equalize_clip_gain=1.5");
  ApplySetting(config, "equalize_bias=false");
  ApplySetting(config, "rotate=16");
  const QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "convnet.onnx");
  EXPECT_EQ(plan.rewrites.rotation, 16);
  ASSERT_TRUE(plan.rewrites.equalization);
  EXPECT_EQ(plan.rewrites.equalization->least_clip_gain_bits, 1.5);
  EXPECT_EQ(FromJson(ToJson(plan)), plan) << ToJson(plan);
  EXPECT_FALSE(FromJson(PlanText(kRow)).rewrites.equalization);
}

TEST(PlanJson, ValuesGoThroughIntegersWithAScaleOfTheirOwn) {
  QuantConfig config = ConfigByName("A16W8");
  for (const char* setting : {"placement=all", "dual_quant=true", "activation_range=min_max"}) {
    ApplySetting(config, setting);
  }
  config.rules.push_back(ParseRule("op_types=Conv: activations=mx6, weights=mx6"));
  QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "convnet.onnx");
  const auto row = std::ranges::find(plan.tensors, "int16", &TensorPlan::through);
  ASSERT_NE(row, plan.tensors.end());
  EXPECT_EQ(row->format, "mx6");
  ASSERT_TRUE(row->through_integer);
  EXPECT_EQ(row->through_integer->range.kind, RangeMethod::Kind::kMinMax);
  EXPECT_EQ(row->ThroughRow().integer, row->through_integer);
  EXPECT_EQ(FromJson(ToJson(plan)), plan) << ToJson(plan);
  row->through_integer->params = formats::QParams{0.5F, 3};
  EXPECT_EQ(FromJson(ToJson(plan)), plan) << ToJson(plan);
  EXPECT_EQ(MisfitOf(plan, LoadModel("convnet.onnx")), "fits");
}

TEST(PlanJson, ValuesGoThroughBlocksAlongAnAxisOfTheirOwn) {
  QuantConfig config = ConfigByName("BF16");
  for (const char* setting : {"placement=all", "dual_quant=true", "scale=floor"}) {
    ApplySetting(config, setting);
  }
  config.rules.push_back(ParseRule("op_types=Conv;Gemm: activations=mxfp8_e4m3"));
  QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "convnet.onnx");
  const auto row = std::ranges::find(plan.tensors, "mxfp8_e4m3", &TensorPlan::through);
  ASSERT_NE(row, plan.tensors.end());
  EXPECT_EQ(row->format, "bf16");
  EXPECT_EQ(row->axis, std::nullopt);
  EXPECT_EQ(row->through_axis, 1);
  // As the producer's inputs, and not by the default of the format.
  EXPECT_EQ(row->through_scale_choice, formats::ScaleChoice::kFloor);
  EXPECT_EQ(row->ThroughRow().axis, 1);
  EXPECT_EQ(FromJson(ToJson(plan)), plan) << ToJson(plan);
  EXPECT_EQ(MisfitOf(plan, LoadModel("convnet.onnx")), "fits");
  row->through_axis = 7;
  EXPECT_THAT(MisfitOf(plan, LoadModel("convnet.onnx")), HasSubstr("axis 7 is out of range"));
  row->through_axis.reset();
  EXPECT_THAT(MisfitOf(plan, LoadModel("convnet.onnx")), HasSubstr("through_axis"));
}

TEST(PlanJson, ShortFormsAreAccepted) {
  const QuantPlan plan = FromJson(PlanText(kRow));
  ASSERT_EQ(plan.tensors.size(), 1u);
  EXPECT_EQ(plan.tensors[0].format, "mx6");
  EXPECT_EQ(plan.tensors[0].axis, 1);
  EXPECT_EQ(plan.operators, OperatorSet::kBitpress);
  // A person who turns a row off need not say why.
  const QuantPlan off =
      FromJson(PlanText(R"({"value": "x", "role": "activation", "format": "none", "uses": []})"));
  EXPECT_EQ(off.tensors[0].reason, "set in the plan");
}

TEST(PlanJson, BrokenText) {
  EXPECT_THAT(JsonErrorOf("{"), AllOf(HasSubstr("not JSON"), HasSubstr("line 1")));
  EXPECT_THAT(JsonErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(JsonErrorOf("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(JsonErrorOf("{}"), HasSubstr("bitpress_plan"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 2, "tensors": []})"), HasSubstr("version 2"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1})"), HasSubstr("'tensors' is missing"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1, "bitpress_plan": 1, "tensors": []})"),
              HasSubstr("twice"));
  const std::string deep(100'000, '[');
  EXPECT_THAT(JsonErrorOf(R"({"tensors":)" + deep), HasSubstr("more than 100 levels"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1, "tensor": []})"), HasSubstr("'tensors'"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1, "tensors": [], "operatrs": "quark"})"),
              HasSubstr("did you mean 'operators'"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1, "tensors": [], "operators": "quack"})"),
              HasSubstr("bitpress|quark"));
  EXPECT_THAT(
      JsonErrorOf(R"({"bitpress_plan": 1, "tensors": [], "config": {"placement": "everywhere"}})"),
      HasSubstr("compute|all"));
  EXPECT_THAT(JsonErrorOf(R"({"bitpress_plan": 1, "tensors": [], "config": {"placment": "all"}})"),
              HasSubstr("did you mean 'placement'"));
}

TEST(PlanJson, RowErrorsNameTheRow) {
  const auto message = [](const char* from, const char* to) {
    return JsonErrorOf(PlanText(Replaced(kRow, from, to)));
  };
  ASSERT_EQ(JsonErrorOf(PlanText(kRow)), "no error");
  const auto row = HasSubstr("tensors[0] ('x')");
  EXPECT_THAT(message("\"axis\"", "\"axes\""), AllOf(row, HasSubstr("axis")));
  EXPECT_THAT(message("\"rounding\"", "\"roundin\""),
              AllOf(row, HasSubstr("did you mean 'rounding'")));
  EXPECT_THAT(message("1,", "\"1\","), AllOf(row, HasSubstr("must be an integer")));
  EXPECT_THAT(message("1,", "18446744073709551615,"), AllOf(row, HasSubstr("must be an integer")));
  EXPECT_THAT(message("\"mx6\"", "\"mx7\""), AllOf(row, HasSubstr("mx7")));
  EXPECT_THAT(message("\"mx6\"", "6"), AllOf(row, HasSubstr("must be a string")));
  EXPECT_THAT(message("\"mx6\"", "\"int8\""), AllOf(row, HasSubstr("no blocks")));
  EXPECT_THAT(message("\"mx6\"", "\"bf16\""), AllOf(row, HasSubstr("no blocks")));
  EXPECT_THAT(message("\"ceil\"", "\"ceiling\""), AllOf(row, HasSubstr("ceil")));
  EXPECT_THAT(message("\"activation\"", "\"activations\""), AllOf(row, HasSubstr("activation")));
  EXPECT_THAT(message("\"axis\": 1", "\"axis\": 1, \"flatten\": true"),
              AllOf(row, HasSubstr("flatten")));
  EXPECT_THAT(message("\"input\": 0", "\"input\": -1"),
              AllOf(row, HasSubstr("uses[0]"), HasSubstr("-1")));
  EXPECT_THAT(message("\"op_type\"", "\"optype\""), AllOf(row, HasSubstr("op_type")));
  EXPECT_THAT(JsonErrorOf(PlanText("7")), HasSubstr("tensors[0]"));
}

TEST(CheckFits, FindsWhatDoesNotFit) {
  const graph::Model model = LoadModel("convnet.onnx");
  const QuantPlan plan = MakePlan(ConfigByName("MX6"), model, "convnet");
  EXPECT_EQ(MisfitOf(plan, model), "fits");
  ASSERT_EQ(plan.tensors[0].value, "x");
  ASSERT_EQ(plan.tensors[1].value, "stem_weight");

  const auto with = [&](auto change) {
    QuantPlan changed = plan;
    change(changed);
    return MisfitOf(changed, model);
  };
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].value = "nothing"; }),
              AllOf(HasSubstr("tensors[0]"), HasSubstr("no value")));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].axis = 4; }),
              AllOf(HasSubstr("tensors[0]"), HasSubstr("axis 4"), HasSubstr("rank 4")));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[1].axis = -5; }), HasSubstr("axis -5"));
  EXPECT_EQ(with([](QuantPlan& p) { p.tensors[0].axis = -3; }), "fits");
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].uses[0].node = "conv_00"; }),
              AllOf(HasSubstr("conv_00"), HasSubstr("did you mean")));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].uses[0].op_type = "Gemm"; }),
              HasSubstr("is a Conv, not a Gemm"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].uses[0].input = 7; }), HasSubstr("no input 7"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].uses[0].input = 1; }),
              HasSubstr("'stem_weight'"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[1].role = Role::kActivation; }),
              HasSubstr("constant"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].role = Role::kWeight; }),
              HasSubstr("not a constant"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors[0].is_graph_output = true; }),
              HasSubstr("not an output"));
  EXPECT_THAT(with([](QuantPlan& p) { p.tensors.push_back(p.tensors[0]); }),
              HasSubstr("decided in tensors[0] too"));
  EXPECT_THAT(with([](QuantPlan& p) {
                p.operators = OperatorSet::kQuark;
                p.tensors[0].format = "fp8_e4m3";
                p.tensors[0].axis.reset();
                p.tensors[0].scale_choice.reset();
              }),
              HasSubstr("com.amd.quark"));
  EXPECT_NE(MisfitOf(plan, LoadModel("attention.onnx")), "fits");
}

TEST(CheckFits, TypesOfConstants) {
  const graph::Model model = LoadModel("exotic.onnx");
  QuantPlan plan = MakePlan(ConfigByName("BF16"), model, "exotic");
  for (TensorPlan& row : plan.tensors) {
    if (row.value == "double_weight") row.format = "bf16";
  }
  EXPECT_THAT(MisfitOf(plan, model), AllOf(HasSubstr("double_weight"), HasSubstr("DOUBLE")));
}

}  // namespace
}  // namespace bitpress::plan
