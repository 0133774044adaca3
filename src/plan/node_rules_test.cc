#include "plan/node_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

QuantPlan PlanWith(const std::string& config, const std::vector<std::string>& rules,
                   const std::string& model = "convnet.onnx") {
  QuantConfig request = ConfigByName(config);
  for (const std::string& rule : rules) request.rules.push_back(ParseRule(rule));
  return MakePlan(request, LoadModel(model), model);
}

std::string PlanErrorOf(const std::string& rule) {
  try {
    PlanWith("MX6", {rule});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Returns the names of the nodes that a rule fits.
std::vector<std::string> Fitting(const std::string& rule) {
  const graph::Model model = LoadModel("convnet.onnx");
  QuantConfig config = ConfigByName("MX6");
  config.rules.push_back(ParseRule(rule + ": exclude"));
  const NodeRules rules(config, model);
  std::vector<std::string> names;
  for (const graph::Node& node : model.Nodes()) {
    if (!rules.For(node).excluded.empty()) names.push_back(node.name());
  }
  return names;
}

TEST(NodeRules, SettingsOfSomeNodes) {
  const QuantPlan plan =
      PlanWith("MX9", {"op_types=Gemm: weights=mxfp4_e2m1, weight_scale=floor",
                       "names=conv_0: activations=none", "nodes=conv_[23]: weights=mx6"});
  EXPECT_EQ(RowOf(plan, "fc_weight").format, "mxfp4_e2m1");
  EXPECT_EQ(RowOf(plan, "fc_weight").scale_choice, formats::ScaleChoice::kFloor);
  EXPECT_EQ(RowOf(plan, "x").reason, "activations=none");
  EXPECT_EQ(RowOf(plan, "stem_weight").format, "mx9");
  EXPECT_EQ(RowOf(plan, "expand_weight").format, "mx6");
  EXPECT_EQ(RowOf(plan, "h").format, "mx9");
}

TEST(NodeRules, AnglesOfPositionsStayFloat) {
  graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[1,n,1] positions, float[1,n,2] x) => (float[1,n,2] y)
    <float[1,2] frequencies = {1, 0.1}, float[2,2] w = {1, 2, 3, 4}>
    { p = Cast<to = 1>(positions)  [angles] a = MatMul(p, frequencies)  c = Cos(a)
      [real] h = MatMul(x, w)  y = Mul(h, c) })");
  model.InferShapes();
  for (const char* const config : {"INT8", "INT8_DYNAMIC", "MX6", "BF16", "INT8_WEIGHTS"}) {
    const QuantPlan plan = PlanFor(model, config);
    for (const TensorPlan& row : plan.tensors) {
      if (row.uses.empty() || row.uses[0].node != "angles") continue;
      EXPECT_FALSE(row.is_quantized()) << config << " " << row.value;
      EXPECT_THAT(row.reason, HasSubstr("angles")) << config;
    }
    EXPECT_TRUE(RowOf(plan, "w").is_quantized()) << config;
  }
}

TEST(NodeRules, LaterOnesCountMore) {
  const QuantPlan plan =
      PlanWith("MX9", {"op_types=Conv: weights=mx6", "names=conv_0: weights=mx4"});
  EXPECT_EQ(RowOf(plan, "stem_weight").format, "mx4");
  EXPECT_EQ(RowOf(plan, "expand_weight").format, "mx6");
}

TEST(NodeRules, PathsBetweenValues) {
  const std::vector<std::string> all = Fitting("nodes=.*");
  EXPECT_EQ(all, Fitting("from=x"));
  EXPECT_EQ(all, Fitting("to=logits"));
  const std::vector<std::string> stem = Fitting("from=x to=b");
  EXPECT_THAT(stem, ElementsAre("conv_0", "clip_1"));
  EXPECT_EQ(Fitting("from=conv_0 to=clip_1"), stem);
  // There are two ways, through the residual block and past it.
  const std::vector<std::string> block = Fitting("from=b to=f");
  EXPECT_EQ(std::ranges::count(block, "conv_2"), 1);
  EXPECT_EQ(std::ranges::count(block, "conv_0"), 0);
  EXPECT_THAT(PlanErrorOf("to=logitz: exclude"), HasSubstr("did you mean"));
  EXPECT_THAT(PlanErrorOf("from=f to=b: exclude"), HasSubstr("no node lies between"));
}

TEST(NodeRules, SingleTensors) {
  const QuantPlan plan = PlanWith("MX9", {"tensors=fc_weight|b: exclude"});
  EXPECT_THAT(RowOf(plan, "b").reason, HasSubstr("excluded by rule 'tensors=fc_weight|b"));
  EXPECT_THAT(RowOf(plan, "fc_weight").reason, HasSubstr("excluded by rule"));
  EXPECT_EQ(RowOf(plan, "h").format, "mx9");
}

TEST(NodeRules, WordsThatFitNothing) {
  EXPECT_THAT(PlanErrorOf("names=conv_22: exclude"), HasSubstr("did you mean 'conv_2'"));
  EXPECT_THAT(PlanErrorOf("op_types=Cnv: exclude"), HasSubstr("did you mean 'Conv'"));
  EXPECT_THAT(PlanErrorOf("tensors=fc_wight: exclude"), HasSubstr("did you mean 'fc_weight'"));
  EXPECT_EQ(PlanErrorOf("names=conv_22 from=nowhere_1 op_types=Conv: exclude, optional"),
            "no error");
}

TEST(NodeRules, WordsOfOptionalRulesThatFitNothingAreNoted) {
  QuantConfig config = ConfigByName("MX6");
  config.rules = {ParseRule("names=conv_22;conv_2: exclude, optional"),
                  ParseRule("not_op_types=Cnv: exclude, optional"),
                  ParseRule("nodes=conv_9.*: exclude, optional")};
  std::vector<std::string> unmatched;
  MakePlan(config, LoadModel("convnet.onnx"), "", &unmatched);
  EXPECT_THAT(unmatched, ElementsAre(HasSubstr("'conv_22' matches no node's name"),
                                     HasSubstr("did you mean 'Conv'"), HasSubstr("'conv_9.*'")));
}

TEST(NodeRules, AllButSomeNodes) {
  const std::vector<std::string> all = Fitting("nodes=.*");
  const std::vector<std::string> convolutions = Fitting("op_types=Conv");
  const std::vector<std::string> others = Fitting("not_op_types=Conv");
  EXPECT_EQ(convolutions.size() + others.size(), all.size());
  EXPECT_THAT(others, testing::Not(testing::Contains(convolutions.front())));
  const std::vector<std::string> unnamed = Fitting("not_names=conv_0;conv_2");
  EXPECT_EQ(unnamed.size() + 2, all.size());
  EXPECT_THAT(unnamed, testing::Not(testing::Contains("conv_0")));
  // Nothing is left: that is what the words say.
  EXPECT_THAT(Fitting("op_types=Conv not_op_types=Conv"), testing::IsEmpty());
  EXPECT_THAT(PlanErrorOf("not_names=conv_22: exclude"), HasSubstr("did you mean 'conv_2'"));
  EXPECT_THAT(PlanErrorOf("not_op_types=Cnv: exclude"), HasSubstr("did you mean 'Conv'"));
}

TEST(NodeRules, TheFirstAndTheLastLayersStayFloat) {
  const auto float_weights = [](const char* setting) {
    QuantConfig config = ConfigByName("MX6");
    ApplySetting(config, setting);
    const QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "convnet.onnx");
    std::vector<std::string> names;
    for (const TensorPlan& row : plan.tensors) {
      if (row.role != Role::kWeight || row.is_quantized()) continue;
      EXPECT_THAT(row.reason, HasSubstr("excluded by float_")) << row.value;
      names.push_back(row.value);
    }
    return names;
  };
  EXPECT_THAT(float_weights("float_first=1"), ElementsAre("stem_weight"));
  EXPECT_THAT(float_weights("float_last=1"), ElementsAre("fc_weight"));
  EXPECT_THAT(float_weights("float_last=0"), testing::IsEmpty());
  EXPECT_GT(float_weights("float_first=100").size(), 3u);
}

TEST(NodeRules, IntegersOfOtherWidths) {
  const QuantPlan plan = PlanWith("INT8", {"op_types=Gemm: activations=uint16, weights=int4"});
  EXPECT_EQ(RowOf(plan, "fc_weight").format, "int4");
  const TensorPlan pooled = RowOf(plan, "h");
  EXPECT_EQ(pooled.format, "uint16");
  EXPECT_EQ(RowOf(plan, "x").format, "uint8");
  // Values that share a scale have one treatment.
  for (const TensorPlan& row : plan.tensors) {
    if (!row.integer || row.integer->shares.empty()) continue;
    EXPECT_EQ(row.format, RowOf(plan, row.integer->shares).format) << row.value;
  }
}

TEST(NodeRules, RangesOfSomeTensors) {
  const QuantPlan plan = PlanWith("INT8", {"tensors=x: activation_range=mse"});
  EXPECT_EQ(RowOf(plan, "x").integer->range.kind, RangeMethod::Kind::kMse);
  EXPECT_EQ(RowOf(plan, "b").integer->range.kind, RangeMethod::Kind::kPercentile);
}

TEST(NodeRules, OtherFormatsAmongIntegers) {
  const QuantPlan plan = PlanWith("INT8", {"names=conv_2: activations=bf16, weights=bf16"});
  const std::vector<TensorPlan> rows = RowsOf(plan, "b");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].format, "uint8");
  EXPECT_EQ(rows[1].format, "bf16");
  EXPECT_THAT(rows[1].uses, ElementsAre(TensorUse{"conv_2", "Conv", 0}));
  EXPECT_EQ(std::ranges::count(rows[0].uses, rows[1].uses.front()), 0);
  EXPECT_EQ(RowOf(plan, "depthwise_weight").format, "bf16");
}

TEST(NodeRules, TensorsLeftOutOfTheIntegers) {
  const QuantPlan plan = PlanWith("INT8", {"tensors=h: exclude"});
  EXPECT_THAT(RowOf(plan, "h").reason, HasSubstr("excluded by rule"));
  EXPECT_EQ(RowOf(plan, "fc_weight").format, "int8");
  EXPECT_FALSE(RowOf(plan, "fc_bias").is_quantized());
}

TEST(NodeRules, OnlyTheNodesOfARule) {
  QuantConfig config;
  ApplySetting(config, "weights=int8");
  config.rules.push_back(ParseRule("op_types=Gemm: activations=uint8"));
  const QuantPlan plan = MakePlan(config, LoadModel("convnet.onnx"), "test");
  EXPECT_EQ(RowOf(plan, "h").format, "uint8");
  EXPECT_EQ(RowOf(plan, "x").reason, "activations=none");
  EXPECT_EQ(RowOf(plan, "fc_bias").format, "int32");
}

// A transformer of two layers.
std::string PlaceRule(const std::string& rule) {
  const graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 11,
    opset_import: ["" : 23]>
    g (int64[B,S] ids) => (float[B,S,64] y)
    <float[64,8] table, float[8,8] w, float[8,16] u, float[16,8] d, float[8,64] h>
    { x = Gather(table, ids)
      [q0] q = MatMul(x, w)  [k0] k = MatMul(x, w)  [v0] v = MatMul(x, w)
      a = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v)  [o0] o = MatMul(a, w)
      x1 = Add(x, o)  [up0] m = MatMul(x1, u)  s = Relu(m)  [down0] e = MatMul(s, d)
      x2 = Add(x1, e)
      [q1] q2 = MatMul(x2, w)  [k1] k2 = MatMul(x2, w)  [v1] v2 = MatMul(x2, w)
      a2 = Attention<q_num_heads = 2, kv_num_heads = 2>(q2, k2, v2)  [o1] o2 = MatMul(a2, w)
      x3 = Add(x2, o2)  [head] y = MatMul(x3, h) })");
  QuantConfig config = ConfigByName("MX6");
  config.rules.push_back(ParseRule(rule + ": exclude"));
  try {
    const NodeRules rules(config, model);
    std::string names;
    for (const graph::Node& node : model.Nodes()) {
      if (!rules.For(node).excluded.empty()) names += (names.empty() ? "" : " ") + node.name();
    }
    return names;
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NodeRules, RolesAndLayersOfTransformers) {
  EXPECT_EQ(PlaceRule("roles=attn_v;mlp_down"), "v0 down0 v1");
  EXPECT_EQ(PlaceRule("roles=attn_v layers=1"), "v1");
  EXPECT_EQ(PlaceRule("layers=1"), "q1 k1 v1 o1");
  EXPECT_EQ(PlaceRule("roles=attn_v layers=mixed"), "v0");  // the first eighth
  EXPECT_EQ(PlaceRule("layers=0-1 nodes=[qk].*"), "q0 k0 q1 k1");
  EXPECT_EQ(PlaceRule("roles=lm_head"), "head");
  EXPECT_THAT(PlaceRule("roles=mlp_gate"), HasSubstr("no node of the model is 'mlp_gate'"));
  EXPECT_THAT(PlaceRule("layers=0-29"), HasSubstr("no layer 29; the model has 2 (0 to 1)"));
  EXPECT_THAT(PlaceRule("roles=mlp_down layers=1"), HasSubstr("no node is mlp_down in layers 1"));
  EXPECT_THAT(PlanErrorOf("roles=attn_v: exclude"), HasSubstr("no transformer"));
}

TEST(NodeRules, PlansTellRolesAndLayers) {
  const graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 11,
    opset_import: ["" : 23]>
    g (float[B,S,8] x) => (float[B,S,8] y) <float[8,24] w, float[8,8] o>
    { qkv = MatMul(x, w)  q, k, v = Split<axis = -1, num_outputs = 3>(qkv)
      a = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v)  p = MatMul(a, o)
      y = Add(x, p) })");
  const QuantPlan plan = MakePlan(ConfigByName("MX6"), model, "");
  const TensorUse use = RowOf(plan, "w").uses.at(0);
  EXPECT_EQ(use.role, "attn_qkv");
  EXPECT_EQ(use.layer, 0);
  const TensorUse read = RowOf(FromJson(ToJson(plan)), "o").uses.at(0);
  EXPECT_EQ(read.role, "attn_o");
  EXPECT_EQ(read.layer, 0);
}

}  // namespace
}  // namespace bitpress::plan
