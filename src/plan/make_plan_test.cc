#include "plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "ops/quantizer_nodes.h"
#include "plan/qdq_placement.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using formats::ScaleChoice;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

QuantPlan PlanFor(const std::string& model, const std::string& config,
                  const std::vector<std::string>& settings = {}) {
  return plan::PlanFor(LoadModel(model), config, settings, model);
}

std::vector<std::string> QuantizedActivations(const QuantPlan& plan) {
  std::vector<std::string> values;
  for (const TensorPlan& row : plan.tensors) {
    if (row.role == Role::kActivation && row.is_quantized()) values.push_back(row.value);
  }
  return values;
}

TEST(MakePlan, ComputePlacementCoversConvAndGemm) {
  const QuantPlan plan = PlanFor("convnet.onnx", "MXFP8E4M3");
  EXPECT_EQ(plan.model_name, "convnet.onnx");
  EXPECT_EQ(plan.opset, 17);
  EXPECT_THAT(QuantizedActivations(plan), ElementsAre("x", "b", "c", "d", "h"));
  for (const TensorPlan& row : plan.tensors) {
    if (row.role != Role::kActivation) continue;
    EXPECT_EQ(row.format, "mxfp8_e4m3");
    EXPECT_EQ(row.axis, 1);
    EXPECT_EQ(row.scale_choice, DefaultScaleChoice(row.Spec(), Role::kActivation));
    EXPECT_FALSE(row.is_graph_output);
  }
  // The residual Add reads b too, but multiplies nothing.
  EXPECT_THAT(RowOf(plan, "b").uses, ElementsAre(TensorUse{"conv_2", "Conv", 0}));
  EXPECT_THAT(RowOf(plan, "stem_bias").reason, HasSubstr("biases stay float"));
  EXPECT_EQ(RowOf(plan, "fc_bias").role, Role::kBias);
  EXPECT_THAT(RowsOf(plan, "zero"), IsEmpty());
}

TEST(MakePlan, ShortAxesOfKernels) {
  const QuantPlan flat = PlanFor("convnet.onnx", "MXFP8E4M3");
  EXPECT_EQ(RowOf(flat, "stem_weight").axis, 1);
  EXPECT_TRUE(RowOf(flat, "stem_weight").flatten);
  EXPECT_TRUE(RowOf(flat, "depthwise_weight").flatten);
  EXPECT_TRUE(RowOf(flat, "expand_weight").flatten);    // 8 channels: shorter than 32
  EXPECT_FALSE(RowOf(flat, "project_weight").flatten);  // 48 channels
  EXPECT_FALSE(RowOf(flat, "fc_weight").flatten);       // a matrix keeps its axis
  EXPECT_EQ(RowOf(flat, "fc_weight").axis, 1);

  // A block of bfp16 has 8 elements, so that the expansion's 8 channels fill one.
  EXPECT_FALSE(RowOf(PlanFor("convnet.onnx", "BFP16"), "expand_weight").flatten);

  const QuantPlan channels = PlanFor("convnet.onnx", "MXFP8E4M3", {"short_axis=channels"});
  EXPECT_EQ(RowOf(channels, "depthwise_weight").axis, 0);
  EXPECT_FALSE(RowOf(channels, "depthwise_weight").flatten);
  EXPECT_EQ(RowOf(channels, "project_weight").axis, 1);

  const QuantPlan axis = PlanFor("convnet.onnx", "MXFP8E4M3", {"short_axis=axis"});
  EXPECT_EQ(RowOf(axis, "depthwise_weight").axis, 1);
  EXPECT_FALSE(RowOf(axis, "depthwise_weight").flatten);
}

TEST(ShortAxis, BlocksOfIntegersAreFlattenedWhereNoDequantizeLinearReadsThem) {
  const std::vector<std::string> blocks{"weights=int4", "weight_granularity=per_block"};
  const QuantPlan floats = PlanFor("convnet.onnx", "BF16", blocks);
  EXPECT_TRUE(RowOf(floats, "depthwise_weight").flatten);
  EXPECT_EQ(RowOf(floats, "depthwise_weight").axis, 1);
  EXPECT_FALSE(RowOf(floats, "project_weight").flatten);
  EXPECT_EQ(FromJson(ToJson(floats)), floats);
  // No Conv reads a DequantizeLinear with blocks, even between integers.
  EXPECT_TRUE(RowOf(PlanFor("convnet.onnx", "INT8", blocks), "depthwise_weight").flatten);
  EXPECT_FALSE(
      RowOf(PlanFor("convnet.onnx", "BF16", {"weights=int4"}), "depthwise_weight").flatten);
}

TEST(MakePlan, ElementwiseFormatsHaveNoAxis) {
  const QuantPlan plan = PlanFor("convnet.onnx", "BF16");
  for (const TensorPlan& row : plan.tensors) {
    EXPECT_EQ(row.axis, std::nullopt) << row.value;
    EXPECT_EQ(row.scale_choice, std::nullopt) << row.value;
    EXPECT_FALSE(row.flatten) << row.value;
  }
}

TEST(MakePlan, MatrixProductsBlockAlongTheSum) {
  const QuantPlan plan = PlanFor("attention.onnx", "MX9");
  EXPECT_EQ(RowOf(plan, "x").axis, 2);
  EXPECT_EQ(RowOf(plan, "x").uses.size(), 3u);
  EXPECT_EQ(RowOf(plan, "wq").axis, 0);
  EXPECT_EQ(RowOf(plan, "q").axis, 2);
  EXPECT_EQ(RowOf(plan, "kt").axis, 1);
  EXPECT_EQ(RowOf(plan, "p").axis, 2);
  EXPECT_EQ(RowOf(plan, "k").axis, 1);  // right operand of p * k
  EXPECT_EQ(RowOf(plan, "y").axis, 0);  // Gemm with transA
  EXPECT_EQ(RowOf(plan, "wg").axis, 0);
  EXPECT_EQ(RowOf(plan, "wv").axis, 0);  // 1-D
  EXPECT_EQ(RowOf(plan, "wv").role, Role::kWeight);
}

TEST(MakePlan, FusedOperators) {
  const QuantPlan plan = PlanFor("fused.onnx", "MXINT8");
  EXPECT_EQ(RowOf(plan, "x").axis, 1);
  EXPECT_EQ(RowOf(plan, "conv_weight").axis, 1);
  EXPECT_THAT(RowsOf(plan, "z"), IsEmpty());  // added after the product
  EXPECT_EQ(RowOf(plan, "m").axis, 2);
  EXPECT_EQ(RowOf(plan, "right_weight").axis, 1);  // transB
  EXPECT_EQ(RowOf(plan, "batch_weight").axis, 0);  // transBatchB: [K, batch, N]
  // Shapes end at FusedMatMul, so that axes count from the end: left of both products, right of the
  // second.
  const std::vector<TensorPlan> n = RowsOf(plan, "n");
  ASSERT_EQ(n.size(), 2u);
  EXPECT_EQ(n[0].axis, -1);
  EXPECT_THAT(n[0].uses, ElementsAre(TensorUse{"fusedmatmul_2", "FusedMatMul", 0}));
  EXPECT_EQ(n[1].axis, -2);
  EXPECT_EQ(n[1].uses.size(), 2u);
}

TEST(MakePlan, OneRowForEachTreatment) {
  const QuantPlan plan = PlanFor("shared.onnx", "MXFP4E2M1");
  EXPECT_EQ(RowOf(plan, "conv_weight").uses.size(), 2u);
  const std::vector<TensorPlan> gemm = RowsOf(plan, "gemm_weight");
  ASSERT_EQ(gemm.size(), 2u);
  EXPECT_EQ(gemm[0].axis, 1);
  EXPECT_EQ(gemm[1].axis, 0);
}

TEST(MakePlan, WhatStaysFloatSaysWhy) {
  const QuantPlan plan = PlanFor("exotic.onnx", "MX6");
  EXPECT_THAT(RowOf(plan, "double_weight").reason, HasSubstr("DOUBLE"));
  EXPECT_THAT(RowOf(plan, "xd").reason, HasSubstr("DOUBLE"));
  EXPECT_THAT(RowOf(plan, "w").reason, HasSubstr("computed by Mul 'mul_4'"));
  EXPECT_THAT(RowOf(plan, "w_in").reason, HasSubstr("model input"));
  EXPECT_EQ(RowOf(plan, "half_weight").format, "mx6");
  EXPECT_EQ(RowOf(plan, "xh").axis, 1);
  // ConvTranspose kernels sum along axis 0. It is too short here, so that the windows of an input
  // channel are a row.
  EXPECT_EQ(RowOf(plan, "up_weight").axis, 1);
  EXPECT_TRUE(RowOf(plan, "up_weight").flatten);
  EXPECT_EQ(RowOf(PlanFor("exotic.onnx", "bfp(bits=13, block=4)"), "up_weight").axis, 0);
  for (const TensorPlan& row : plan.tensors) {
    EXPECT_EQ(row.is_quantized(), row.reason.empty()) << row.value;
    EXPECT_FALSE(row.uses.empty()) << row.value;
  }
}

TEST(MakePlan, SidesAreIndependent) {
  const QuantPlan weight_only = PlanFor("convnet.onnx", "MXFP4E2M1", {"activations=none"});
  EXPECT_THAT(QuantizedActivations(weight_only), IsEmpty());
  EXPECT_EQ(RowOf(weight_only, "x").reason, "activations=none");
  EXPECT_EQ(RowOf(weight_only, "fc_weight").format, "mxfp4_e2m1");

  const QuantPlan mixed = PlanFor("convnet.onnx", "MX9", {"weights=mxfp4_e2m1", "biases=bf16"});
  EXPECT_EQ(RowOf(mixed, "x").format, "mx9");
  EXPECT_EQ(RowOf(mixed, "fc_weight").format, "mxfp4_e2m1");
  EXPECT_EQ(RowOf(mixed, "fc_bias").format, "bf16");
  EXPECT_EQ(RowOf(PlanFor("convnet.onnx", "MX9", {"weights=none"}), "fc_weight").reason,
            "weights=none");
}

TEST(MakePlan, Exclusions) {
  const QuantPlan plan =
      PlanFor("convnet.onnx", "MX6", {"exclude_nodes=conv_[02]", "exclude_op_types=Gemm"});
  EXPECT_THAT(QuantizedActivations(plan), ElementsAre("c", "d"));
  EXPECT_THAT(RowOf(plan, "x").reason, HasSubstr("exclude_nodes 'conv_[02]'"));
  EXPECT_THAT(RowOf(plan, "stem_weight").reason, HasSubstr("exclude_nodes"));
  EXPECT_THAT(RowOf(plan, "h").reason, HasSubstr("exclude_op_types Gemm"));
  try {
    PlanFor("convnet.onnx", "MX6", {"exclude_nodes=conv_22"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'conv_2'"));
  }
  EXPECT_THROW(PlanFor("convnet.onnx", "MX6", {"exclude_op_types=Cnv"}), Error);
}

TEST(MakePlan, PlacementAllSurroundsEveryOperator) {
  const QuantPlan plan = PlanFor("convnet.onnx", "MXFP8E4M3", {"placement=all"});
  EXPECT_THAT(QuantizedActivations(plan),
              ElementsAre("x", "a", "b", "c", "d", "e", "f", "g", "h", "logits"));
  EXPECT_EQ(RowOf(plan, "b").uses.size(), 2u);
  EXPECT_TRUE(RowOf(plan, "logits").is_graph_output);
  EXPECT_THAT(RowsOf(plan, "zero"), IsEmpty());  // a limit of Clip
  EXPECT_THAT(RowOf(PlanFor("shared.onnx", "MX6", {"placement=all"}), "one").reason,
              HasSubstr("constant of Add"));
  // The weights are the same as with compute.
  EXPECT_TRUE(RowOf(plan, "depthwise_weight").flatten);
}

TEST(MakePlan, BothFormatsStandInARowInBothDirections) {
  for (const char* const wide : {"bf16", "fp16", "int16", "uint8", "bfp16", "mxfp8_e4m3"}) {
    for (const char* const narrow : {"bf16", "fp16", "int8", "bfp16", "mx6", "mxint8"}) {
      if (std::string(wide) == narrow) continue;
      QuantConfig config = ConfigByName("none");
      for (const char* setting : {"placement=all", "dual_quant=true"}) {
        ApplySetting(config, setting);
      }
      ApplySetting(config, "activations", wide);
      config.rules.push_back(ParseRule(fmt::format("op_types=Conv;Gemm: activations={}", narrow)));
      const QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "convnet.onnx");
      const auto count = [&](const std::string& first, const std::string& second) {
        return std::ranges::count_if(plan.tensors, [&](const TensorPlan& row) {
          return row.through == first && row.format == second;
        });
      };
      EXPECT_GT(count(wide, narrow), 0) << wide << " to " << narrow;
      EXPECT_GT(count(narrow, wide), 0) << narrow << " to " << wide;
      CheckFits(plan, LoadModel("convnet.onnx"));
    }
  }
}

TEST(MakePlan, PlacementAllRefinesAxes) {
  const QuantPlan plan = PlanFor("attention.onnx", "MXINT8", {"placement=all"});
  EXPECT_EQ(RowOf(plan, "s").axis, 2);  // Softmax
  const std::vector<TensorPlan> k = RowsOf(plan, "k");
  ASSERT_EQ(k.size(), 1u);  // Transpose and MatMul agree on axis 1
  EXPECT_EQ(k[0].uses.size(), 2u);
  EXPECT_TRUE(RowOf(plan, "v").is_graph_output);
}

TEST(MakePlan, PlacementAllLeavesScalars) {
  const QuantPlan plan = PlanFor("exotic.onnx", "MXINT8", {"placement=all"});
  const TensorPlan row = RowOf(plan, "r");
  EXPECT_EQ(row.reason, "scalar");
  EXPECT_TRUE(row.is_graph_output);
}

TEST(MakePlan, BodiesOfControlFlowToo) {
  const QuantPlan plan = PlanFor("branches.onnx", "MX6", {"short_axis=axis"});
  const TensorPlan outer = RowOf(plan, "outer_weight");
  EXPECT_EQ(outer.format, "mx6");
  EXPECT_THAT(outer.uses,
              ElementsAre(TensorUse{"first", "Conv", 1}, TensorUse{"then_conv", "Conv", 1}));
  EXPECT_THAT(RowOf(plan, "inner_weight").uses, ElementsAre(TensorUse{"else_conv", "Conv", 1}));
  // One quantizer stands behind the value, and both branches read it.
  EXPECT_THAT(RowOf(plan, "h").uses, UnorderedElementsAre(TensorUse{"then_conv", "Conv", 0},
                                                          TensorUse{"else_conv", "Conv", 0}));
}

TEST(MakePlan, PairsInBodies) {
  const QuantPlan plan = PlanFor("branches.onnx", "INT8");
  EXPECT_THAT(QuantizedActivations(plan), UnorderedElementsAre("x", "h", "t", "e"));
  EXPECT_TRUE(RowOf(plan, "t").is_graph_output);
  EXPECT_FALSE(RowOf(plan, "h").is_graph_output);
}

TEST(MakePlan, AlreadyQuantized) {
  const QuantPlan plan = PlanFor("quantized.onnx", "MX9", {"placement=all"});
  EXPECT_THAT(RowOf(plan, "xq").reason, HasSubstr("already quantized by MXQuantizeDequantize"));
  EXPECT_THAT(RowOf(plan, "w").reason, HasSubstr("already quantized by DequantizeLinear"));
  EXPECT_THAT(RowsOf(plan, "x"), IsEmpty());
  EXPECT_EQ(RowOf(plan, "w").role, Role::kWeight);
  EXPECT_THAT(QuantizedActivations(plan), ElementsAre("h", "y"));
}

TEST(MakePlan, WeightsThatWeWroteAreNotRoundedAgain) {
  graph::Model model = LoadModel("convnet.onnx");
  model.SetMetadata(ops::kWeightsMetadata, "5");
  const QuantPlan plan = MakePlan(ConfigByName("MX9"), model, "convnet");
  EXPECT_THAT(RowOf(plan, "fc_weight").reason, HasSubstr("already quantized"));
  EXPECT_TRUE(RowOf(plan, "x").is_quantized());
}

TEST(MakePlan, QuarkOperators) {
  EXPECT_EQ(PlanFor("convnet.onnx", "MX6", {"operators=quark"}).operators, OperatorSet::kQuark);
  EXPECT_THROW(PlanFor("convnet.onnx", "fp8_e4m3", {"operators=quark"}), Error);
  // No operator runs on weights.
  EXPECT_NO_THROW(PlanFor("convnet.onnx", "fp8_e4m3", {"operators=quark", "activations=none"}));
}

TEST(MakePlan, QuarkPairsDoNotTakeFloat16) {
  EXPECT_TRUE(RowOf(PlanFor("exotic.onnx", "BF16"), "xh").is_quantized());
  EXPECT_TRUE(RowOf(PlanFor("exotic.onnx", "MX6", {"operators=quark"}), "xh").is_quantized());
  QuantPlan plan = PlanFor("exotic.onnx", "BF16", {"operators=quark"});
  EXPECT_THAT(RowOf(plan, "xh").reason, HasSubstr("FLOAT16"));
  for (TensorPlan& row : plan.tensors) {
    if (row.value == "xh") row.format = "bf16";
  }
  EXPECT_THROW(CheckFits(plan, LoadModel("exotic.onnx")), Error);
}

TEST(MakePlan, NodesWithoutNames) {
  const QuantPlan plan = PlanFor("nameless.onnx", "MXINT8", {"placement=all"});
  EXPECT_THAT(RowOf(plan, "x").uses, ElementsAre(TensorUse{"a", "MatMul", 0}));
  EXPECT_THAT(RowOf(plan, "b").uses, ElementsAre(TensorUse{"y", "Relu", 0}));
  EXPECT_NO_THROW(CheckFits(plan, LoadModel("nameless.onnx")));
}

TEST(MakePlan, IsDeterministic) {
  const std::string first = ToJson(PlanFor("attention.onnx", "MX6", {"placement=all"}));
  EXPECT_EQ(first, ToJson(PlanFor("attention.onnx", "MX6", {"placement=all"})));
}

TEST(MakePlan, BlocksRunAlongTheRequestedAxis) {
  const auto plan_with = [](const char* setting) {
    QuantConfig config = ConfigByName("MX6");
    for (const char* always : {"placement=all", "short_axis=axis"}) ApplySetting(config, always);
    ApplySetting(config, setting);
    return MakePlan(config, LoadModel("convnet.onnx"), "");
  };
  for (const auto& [setting, of_convolutions] :
       {std::pair{"block_axis=default", 1}, std::pair{"block_axis=2", 2},
        std::pair{"block_axis=-1", 3}}) {
    const QuantPlan plan = plan_with(setting);
    for (const TensorPlan& row : plan.tensors) {
      if (!row.is_quantized() || row.role == Role::kBias) continue;
      for (const TensorUse& use : row.uses) {
        if (use.op_type == "Conv" || use.op_type == "Relu") {
          EXPECT_EQ(row.axis, of_convolutions) << setting << " " << row.value;
        }
        // Products keep the axis that they sum over.
        if (use.op_type == "Gemm" && row.role == Role::kActivation) {
          EXPECT_EQ(row.axis, 1) << setting << " " << row.value;
        }
      }
    }
  }
}

TEST(NeededValues, LeavesOutWhatNoOperatorOnIntegersNeeds) {
  const graph::Model model = LoadModel("convnet.onnx");
  const auto needed = [&](const std::set<std::string>& quantized) {
    std::vector<std::string> names;
    for (const QdqValue& value : NeededValues(model, quantized).values) {
      names.push_back(value.name);
    }
    return names;
  };
  EXPECT_THAT(needed({"x", "b", "c", "d", "e", "f", "g", "h"}),
              ElementsAre("x", "b", "c", "d", "e", "f", "g", "h"));
  // Without d, two Convs compute in float, and so do the Add and the pool behind them.
  EXPECT_THAT(needed({"x", "b", "c", "e", "f", "g", "h"}), ElementsAre("x", "b", "c", "h"));
  EXPECT_EQ(NeededValues(model, {"x", "b", "c", "h"}).operators.size(), 3U);
  EXPECT_THAT(needed({"x"}), IsEmpty());
}

}  // namespace
}  // namespace bitpress::plan
