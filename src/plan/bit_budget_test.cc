#include "plan/bit_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

graph::Model ModelOf(const std::string& signature, const std::string& constants,
                     const std::string& nodes) {
  graph::Model model =
      graph::FromTextWithConstants("<ir_version: 10, opset_import: [\"\" : 21]> g " + signature +
                                   " <" + constants + "> { " + nodes + " }");
  model.InferShapes();
  return model;
}

// A stem, an inverted residual block, and a head: 864, 32768, 4608, 16384 and 640 weights.
graph::Model MobileNetwork() {
  return ModelOf("(float[1,32,8,8] x) => (float[1,10] y)",
                 "float[64,32,1,1] stem, float[512,64,1,1] expand, float[512,1,3,3] depthwise, "
                 "float[64,512,1,1] project, float[10,64] head",
                 "a = Conv(x, stem) b = Relu(a) c = Conv(b, expand) d = Relu(c) "
                 "e = Conv<group=512,pads=[1,1,1,1]>(d, depthwise) f = Relu(e) "
                 "g = Conv(f, project) h = GlobalAveragePool(g) i = Flatten(h) "
                 "y = Gemm<transB=1>(i, head)");
}

// Returns the rows of one role that have another format than most.
std::map<std::string, std::string> WiderRows(const QuantPlan& plan, Role role) {
  std::map<std::string, std::string> rows;
  const std::string& narrow = role == Role::kWeight ? plan.config.weights : plan.config.activations;
  for (const TensorPlan& row : plan.tensors) {
    if (row.role == role && row.format != narrow) rows[row.value] = row.format;
  }
  return rows;
}

TEST(MeanBits, CountsWeightsByElementsAndActivationsByProducts) {
  const graph::Model model =
      ModelOf("(float[1,64] x) => (float[1,32] y)", "float[64,96] a, float[96,32] b",
              "h = MatMul(x, a) y = MatMul(h, b)");
  const QuantPlan plan = PlanFor(model, "MXFP4E2M1", {}, "test");
  EXPECT_EQ(MeanBitsOf(plan, model).weights, 4.25);
  EXPECT_EQ(MeanBitsOf(plan, model).activations, 4.25);
  QuantConfig mixed = ConfigByName("MXFP4E2M1");
  mixed.rules.push_back(ParseRule("tensors=h: activations=mxint8"));
  mixed.rules.push_back(ParseRule("tensors=a: weights=none"));
  const MeanBits mean = MeanBitsOf(MakePlan(mixed, model, "test"), model);
  EXPECT_DOUBLE_EQ(mean.weights, (6144 * 32 + 3072 * 4.25) / 9216);
  EXPECT_DOUBLE_EQ(mean.activations, (6144 * 4.25 + 3072 * 8.25) / 9216);
}

TEST(MeanBits, ShortBlocksTakeMoreBits) {
  // 9 elements share a scale of 8 bits.
  const graph::Model model = ModelOf("(float[1,64,4,4] x) => (float[1,64,2,2] y)",
                                     "float[64,1,3,3] w", "y = Conv<group=64>(x, w)");
  const MeanBits mean = MeanBitsOf(PlanFor(model, "MXFP4E2M1"), model);
  EXPECT_DOUBLE_EQ(mean.weights, 4 + 8.0 / 9);
  EXPECT_EQ(mean.activations, 4.25);
}

TEST(MeanBits, FourBitsGiveFirstDepthwiseAndLastLayersMore) {
  const graph::Model model = MobileNetwork();
  const QuantPlan plan = PlanFor(model, "FOUR_BITS");
  EXPECT_THAT(WiderRows(plan, Role::kWeight),
              UnorderedElementsAre(Pair("stem", "mxint8"), Pair("depthwise", "mxfp6_e2m3"),
                                   Pair("head", "mxint8")));
  // The depthwise layer has 294912 of 3.5 million products.
  EXPECT_THAT(
      WiderRows(plan, Role::kActivation),
      UnorderedElementsAre(Pair("x", "mxint8"), Pair("d", "mxfp6_e2m3"), Pair("i", "mxint8")));
  EXPECT_THAT(plan.config.rules, IsEmpty());
}

TEST(MeanBits, MeansStayWithinTheBudget) {
  const graph::Model models[] = {
      MobileNetwork(),
      // no depthwise layer
      ModelOf("(float[1,32] x) => (float[1,32] y)",
              "float[32,64] a, float[64,256] b, float[256,64] c, float[64,32] d",
              "p = MatMul(x, a) q = Relu(p) r = MatMul(q, b) s = Relu(r) t = MatMul(s, c) "
              "u = Relu(t) y = MatMul(u, d)"),
      LoadModel("attention.onnx")};
  for (const graph::Model& model : models) {
    for (const double budget : {4.25, 4.3, 4.6, 5.0, 6.5, 9.0}) {
      const QuantPlan plan =
          PlanFor(model, "MXFP4E2M1", {fmt::format("mean_bits={}", budget), "finetune=none"});
      const MeanBits narrow = MeanBitsOf(PlanFor(model, "MXFP4E2M1"), model);
      const MeanBits mean = MeanBitsOf(plan, model);
      EXPECT_LE(mean.weights, std::max(budget, narrow.weights) + 1e-9) << budget;
      EXPECT_LE(mean.activations, std::max(budget, narrow.activations) + 1e-9) << budget;
      EXPECT_GE(mean.weights, narrow.weights);
      EXPECT_GT(mean.activations, budget < 6.5 ? 4.2 : 5.9);
    }
  }
}

TEST(MeanBits, NetworksWithoutDepthwiseLayersWidenTheirEnds) {
  const graph::Model model = ModelOf(
      "(float[1,32] x) => (float[1,32] y)",
      "float[32,64] a, float[64,512] b, float[512,64] c, float[64,32] d",
      "p = MatMul(x, a) q = Relu(p) r = MatMul(q, b) s = Relu(r) t = MatMul(s, c) u = Relu(t) "
      "y = MatMul(u, d)");
  const QuantPlan plan = PlanFor(model, "FOUR_BITS");
  EXPECT_THAT(WiderRows(plan, Role::kWeight),
              UnorderedElementsAre(Pair("a", "mxint8"), Pair("d", "mxint8")));
  EXPECT_THAT(WiderRows(plan, Role::kActivation),
              UnorderedElementsAre(Pair("x", "mxint8"), Pair("u", "mxint8")));
}

TEST(MeanBits, EarlyLayersGetSixBitsBeforeTheEndsGetEight) {
  // 6 bits take 4096 of 19712 bits for `a`, `b` and `c` each, and 2048 for `f`.
  const graph::Model model = ModelOf(
      "(float[1,32] x) => (float[1,32] y)",
      "float[32,64] a, float[64,32] b, float[32,64] c, float[64,512] d, float[512,32] e, "
      "float[32,32] f",
      "p = MatMul(x, a) q = MatMul(p, b) r = MatMul(q, c) s = MatMul(r, d) t = MatMul(s, e) "
      "y = MatMul(t, f)");
  const QuantPlan plan = PlanFor(model, "FOUR_BITS");
  EXPECT_THAT(WiderRows(plan, Role::kWeight),
              UnorderedElementsAre(Pair("a", "mxint8"), Pair("b", "mxfp6_e2m3"),
                                   Pair("c", "mxfp6_e2m3"), Pair("f", "mxfp6_e2m3")));
}

TEST(MeanBits, EarlyProjectionsComeBeforeLateDepthwiseLayers) {
  // The projection has 16384 of 2218240 products, and the depthwise layers 18432 and 20736. The
  // budget has room for the first layer and two of these.
  const graph::Model model = ModelOf(
      "(float[1,32,8,8] x) => (float[1,8,6,6] y)",
      "float[32,32,1,1] stem, float[32,1,3,3] early, float[8,32,1,1] project, "
      "float[64,8,1,1] expand, float[64,1,3,3] late, float[64,64,1,1] a, float[64,64,1,1] b, "
      "float[64,64,1,1] c, float[64,64,1,1] d, float[64,64,1,1] e, float[512,64,1,1] wide, "
      "float[8,512,1,1] last",
      "s = Conv(x, stem) t = Conv<group=32, pads=[1,1,1,1]>(s, early) u = Conv(t, project) "
      "v = Conv(u, expand) w = Conv<group=64>(v, late) h = Conv(w, a) i = Conv(h, b) "
      "j = Conv(i, c) k = Conv(j, d) l = Conv(k, e) m = Conv(l, wide) y = Conv(m, last)");
  const QuantPlan plan = PlanFor(model, "MXFP4E2M1", {"mean_bits=4.3455", "finetune=none"});
  EXPECT_THAT(WiderRows(plan, Role::kActivation),
              UnorderedElementsAre(Pair("x", "mxfp6_e2m3"), Pair("s", "mxfp6_e2m3"),
                                   Pair("t", "mxfp6_e2m3")));
}

TEST(MeanBits, TinyLayersKeepTheirFormatWhereNoneFits) {
  // Each layer is a third of the network, and blocks are short, so that none gets more bits.
  const graph::Model model =
      ModelOf("(float[1,4] x) => (float[1,4] y)", "float[4,4] a, float[4,4] b, float[4,4] c",
              "p = MatMul(x, a) q = MatMul(p, b) y = MatMul(q, c)");
  const QuantPlan plan = PlanFor(model, "FOUR_BITS");
  EXPECT_THAT(WiderRows(plan, Role::kWeight), IsEmpty());
  EXPECT_THAT(WiderRows(plan, Role::kActivation), IsEmpty());
  EXPECT_EQ(MeanBitsOf(plan, model).weights, 6);
}

TEST(MeanBits, SharedWeightsKeepTheirFormat) {
  const graph::Model model = ModelOf("(float[1,32] x) => (float[1,32] y)", "float[32,32] w",
                                     "p = MatMul(x, w) q = Relu(p) y = MatMul(q, w)");
  const QuantPlan plan = PlanFor(model, "MXFP4E2M1", {"mean_bits=9"});
  EXPECT_THAT(WiderRows(plan, Role::kWeight), IsEmpty());
  EXPECT_EQ(RowOf(plan, "w").uses.size(), 2u);
  EXPECT_EQ(WiderRows(plan, Role::kActivation).size(), 2u);
}

TEST(MeanBits, RulesOfUsersStay) {
  const graph::Model model = MobileNetwork();
  QuantConfig config = ConfigByName("FOUR_BITS");
  config.rules.push_back(ParseRule("tensors=depthwise: weights=mx9"));
  config.rules.push_back(ParseRule("tensors=x: activations=none"));
  const QuantPlan plan = MakePlan(config, model, "test");
  EXPECT_EQ(RowOf(plan, "depthwise").format, "mx9");
  EXPECT_FALSE(RowOf(plan, "x").is_quantized());
  EXPECT_EQ(plan.config.rules.size(), 2u);
}

TEST(MeanBits, WiderFormatsHaveNoScaleOfATensor) {
  const QuantPlan plan = PlanFor(MobileNetwork(), "FOUR_BITS_NVFP4");
  EXPECT_FALSE(RowOf(plan, "stem").scaled);
  EXPECT_TRUE(RowOf(plan, "expand").scaled);
}

TEST(MeanBits, SaysWhatCannotBe) {
  const graph::Model model = MobileNetwork();
  const auto error = [&](const std::string& config, const std::string& setting) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { PlanFor(model, config, {setting}); });
  };
  EXPECT_THAT(error("MXFP4E2M1", "mean_bits=4"), HasSubstr("4 bits are fewer than the 4.25"));
  EXPECT_THAT(error("INT8", "mean_bits=9"), HasSubstr("not for int8"));
}

}  // namespace
}  // namespace bitpress::plan
