#include "search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_support.h"
#include "graph/test_models.h"
#include "plan/make_plan.h"
#include "search/search_layers.h"

namespace bitpress::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseTarget, KnowsDirectionsAndUnits) {
  Measurement measurement;
  measurement.sqnr_db = 20;
  measurement.agreement = 0.97;
  measurement.top1 = 0.80;
  measurement.reference_top1 = 0.84;
  EXPECT_TRUE(ParseTarget("sqnr>=20").IsReached(measurement));
  EXPECT_FALSE(ParseTarget("sqnr >= 20.1").IsReached(measurement));
  EXPECT_TRUE(ParseTarget("agreement>=97").IsReached(measurement));
  EXPECT_TRUE(ParseTarget("top1_drop<=4").IsReached(measurement));
  EXPECT_FALSE(ParseTarget("top1_drop<=3.9").IsReached(measurement));
  EXPECT_EQ(ParseTarget("top1_drop<=0.5").Text(), "top1_drop<=0.5");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { ParseTarget("divergence<=0.1").IsReached(measurement); }),
              HasSubstr("no tokens are predicted"));
  measurement.divergence = 0.05;
  EXPECT_TRUE(ParseTarget("divergence<=0.05").IsReached(measurement));
  EXPECT_FALSE(ParseTarget("divergence<=0.04").IsReached(measurement));
  measurement.top1.reset();
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { ParseTarget("top1>=80").IsReached(measurement); }),
              HasSubstr("give labels"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { ParseTarget("metric>=1").IsReached(measurement); }),
              HasSubstr("no measure of your own"));
  measurement.metric = 0.75;
  measurement.reference_metric = 0.8;
  EXPECT_TRUE(ParseTarget("metric>=0.75").IsReached(measurement));
  EXPECT_TRUE(ParseTarget("metric_drop<=0.05").IsReached(measurement));
  EXPECT_FALSE(ParseTarget("metric_drop<=0.04").IsReached(measurement));
}

TEST(ParseTarget, RefusesWhatMeansNothing) {
  const auto error = [](const char* text) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { ParseTarget(text); });
  };
  EXPECT_THAT(error("sqnr=15"), HasSubstr("sqnr>=15"));
  EXPECT_THAT(error("sqnr<=15"), HasSubstr("bounded by >="));
  EXPECT_THAT(error("sqrn>=15"), HasSubstr("sqnr"));
  EXPECT_THAT(error("sqnr>=nan"), HasSubstr("nan"));
}

TEST(ParseBudget, ReadsSizes) {
  EXPECT_EQ(ParseBudget("bytes<=3MB").bound, 3e6);
  EXPECT_EQ(ParseBudget("bytes<=1500").bound, 1500);
  EXPECT_EQ(ParseBudget("bits<=4.5").bound, 4.5);
  ExpectError(ErrorCode::kInvalidArgument, [] { ParseBudget("bits>=4"); });
  ExpectError(ErrorCode::kInvalidArgument, [] { ParseBudget("bits<=-1"); });
  ExpectError(ErrorCode::kInvalidArgument, [] { ParseBudget("sqnr<=1"); });
}

TEST(Words, OfCostsAndMethods) {
  for (const std::string_view word : {"bits", "bytes", "mac_bits", "time"}) {
    EXPECT_EQ(CostName(ParseCostKind(word)), word);
    EXPECT_NE(CostLabel(ParseCostKind(word)), "?");
  }
  for (const std::string_view word : {"fast", "exact", "both"}) {
    EXPECT_EQ(MethodName(ParseMethod(word)), word);
  }
  EXPECT_EQ(ExpectError(ErrorCode::kInvalidArgument, [] { ParseCostKind("mac_bit"); }),
            "cost 'mac_bit' is not one of bits|bytes|mac_bits|time (did you mean 'mac_bits'?)");
  EXPECT_EQ(ExpectError(ErrorCode::kInvalidArgument, [] { ParseMethod("exakt"); }),
            "method 'exakt' is not one of fast|exact|both (did you mean 'exact'?)");
}

TEST(RankCorrelation, IsSpearmans) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {3, 2, 1}), -1);
  // Ranks 1, 2.5, 2.5, 4 and 2, 1, 3.5, 3.5.
  EXPECT_NEAR(RankCorrelation({1, 2, 2, 4}, {3, 1, 4, 4}), 0.5, 1e-12);
}

SearchGoals Goals(std::string_view target, std::string_view budget,
                  Strategy strategy = Strategy::kOptimal) {
  SearchGoals goals;
  if (!target.empty()) goals.target = ParseTarget(target);
  if (!budget.empty()) goals.budget = ParseBudget(budget);
  goals.strategy = strategy;
  return goals;
}

// A chain of three layers, each with a candidate that costs 4 bits and one that costs 8.
class SearchOfThree : public testing::Test {
 protected:
  SearchOfThree()
      : model_(graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
          g (float[N,2] x) => (float[N,2] y)
          <float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}, float[2,2] c = {1,2,3,4}>
          { p = MatMul(x, a)  q = MatMul(p, b)  y = MatMul(q, c) })")),
        space_(MakeSpace({}, ParseCandidates("mx9,mx4"), ParseCandidates("float"), std::nullopt)) {
    for (const auto& [node, noise] :
         {std::pair{"p", 0.1}, std::pair{"q", 0.001}, std::pair{"y", 0.01}}) {
      LayerLoss layer{node, "MatMul", 1, std::nullopt, std::vector<PartLoss>(3)};
      layer.parts[0] = {true, 0, 0.0, std::nullopt, std::nullopt};
      layer.parts[1] = {true, 0, noise, std::nullopt, std::nullopt};
      sensitivity_.layers.push_back(layer);
    }
    std::map<std::string, uint64_t> fine{{"a", 4}, {"b", 4}, {"c", 4}};
    std::map<std::string, uint64_t> coarse{{"a", 2}, {"b", 2}, {"c", 2}};
    costs_.emplace(CostKind::kBits, model_, space_, sensitivity_, GroupLayers(model_, sensitivity_),
                   std::vector<std::map<std::string, uint64_t>>{fine, coarse, {}}, 1000);
  }

  // Measures a choice. The measured noise is the predicted one times a factor.
  Measurement MeasureChoice(const Choice& choice) {
    ++num_measured_;
    Measurement measurement;
    double noise = 1e-9;
    for (size_t group = 0; group < choice.size(); ++group) {
      noise += costs_->NoiseOf(costs_->groups()[group], space_.combinations[choice[group]]);
    }
    measurement.sqnr_db = -10 * std::log10(1.5 * noise);
    return measurement;
  }

  SearchResult Run(const SearchGoals& goals) {
    return Search(*costs_, space_, goals,
                  [&](const Choice& choice) { return MeasureChoice(choice); });
  }

  graph::Model model_;
  Space space_;
  Sensitivity sensitivity_;
  std::optional<CostModel> costs_;
  int num_measured_ = 0;
};

TEST_F(SearchOfThree, FindsTheLeastCostThatReachesTheTarget) {
  // Only p must be fine: 10 log10(1 / (1.5 * 0.011)) = 17.8 dB.
  const SearchResult result = Run(Goals("sqnr>=17", ""));
  EXPECT_TRUE(result.is_reached);
  EXPECT_TRUE(result.is_exact);
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 1));
  EXPECT_NEAR(result.points[result.chosen].cost, 8.0 * (4 + 2 + 2) / 12, 1e-9);
  EXPECT_EQ(static_cast<size_t>(num_measured_), result.num_measured);
}

TEST_F(SearchOfThree, KeepsABudget) {
  const SearchResult result = Run(Goals("", "bits<=7"));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 0));
  EXPECT_TRUE(result.points[result.chosen].measured.has_value());
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { Run(Goals("", "bits<=3")); }),
              HasSubstr("bits = 4"));
}

TEST_F(SearchOfThree, ALayerOfInfiniteNoiseTakesTheCheapest) {
  // Whatever q gets, its output is no longer 0; and mx4 is out of the question for p.
  constexpr double kInfiniteNoise = std::numeric_limits<double>::infinity();
  sensitivity_.layers[1].parts[0].fast_noise = kInfiniteNoise;
  sensitivity_.layers[1].parts[1].fast_noise = kInfiniteNoise;
  sensitivity_.layers[0].parts[1].fast_noise = kInfiniteNoise;
  const SearchResult result = Run(Goals("", "bits<=7"));
  EXPECT_THAT(result.points.front().choice, ElementsAre(0, 1, 1));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 0));
  const SearchResult greedy = Run(Goals("sqnr>=17", "", Strategy::kGreedy));
  EXPECT_FALSE(greedy.is_reached);
  EXPECT_THAT(greedy.points[greedy.chosen].choice, ElementsAre(0, 1, 0));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { Run(Goals("", "bits<=5")); }),
              HasSubstr("cannot be kept"));
}

TEST_F(SearchOfThree, SaysWhatCannotBeReached) {
  const SearchResult result = Run(Goals("sqnr>=40", "bits<=7"));
  EXPECT_FALSE(result.is_reached);
  EXPECT_THAT(result.why_not, HasSubstr("sqnr>=40"));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 0));
  EXPECT_EQ(WorstGroups(*costs_, space_, result.points[result.chosen].choice, 1).front().first, 1);
}

TEST_F(SearchOfThree, GreedyLowersTheLeastSensitiveFirst) {
  const SearchResult result = Run(Goals("sqnr>=17", "", Strategy::kGreedy));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 1));
  // It measures all fine, then lowers q, y and p; the last one misses.
  EXPECT_EQ(result.num_measured, 4);
  ExpectError(ErrorCode::kInvalidArgument, [&] { Run(Goals("", "bits<=7", Strategy::kGreedy)); });
}

TEST_F(SearchOfThree, GreedyOrdersByWhatLoweringCosts) {
  // q loses most in all, but as much before it is lowered; y would miss the target.
  for (PartLoss& part : sensitivity_.layers[1].parts) {
    if (part.is_there) part.fast_noise = 0.012;
  }
  sensitivity_.layers[2].parts[1].fast_noise = 0.01;
  const SearchResult result = Run(Goals("sqnr>=17", "", Strategy::kGreedy));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(0, 1, 0));
}

// Returns the cost of a product with a weight of 12 stored bytes or none, and of one of two
// activations, all of `type`.
std::vector<double> CostsOfType(CostKind kind, const std::string& type) {
  const graph::Model model =
      graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g ()" + type + "[2,4] x, " +
                      type + "[2,2] b) => (" + type + R"([2,2] y) <)" + type +
                      R"([4,2] a = {1,2,3,4,5,6,7,8}> { p = MatMul(x, a)  y = MatMul(p, b) })");
  const Space space =
      MakeSpace({}, ParseCandidates("mx9,float"), ParseCandidates("float"), std::nullopt);
  Sensitivity sensitivity;
  for (const char* node : {"p", "y"}) {
    LayerLoss layer{node, "MatMul", 1, std::nullopt, std::vector<PartLoss>(3)};
    layer.parts[0].is_there = node == std::string("p");
    sensitivity.layers.push_back(layer);
  }
  const CostModel costs(kind, model, space, sensitivity, GroupLayers(model, sensitivity),
                        {{{"a", 12}}, {}, {}}, 1000);
  std::vector<double> found;
  for (const LayerGroup& group : costs.groups()) {
    for (const std::vector<size_t>& combination : space.combinations) {
      found.push_back(costs.Of(group, combination));
    }
  }
  return found;
}

TEST(CostModel, CountsTheBitsThatTheModelHas) {
  EXPECT_THAT(CostsOfType(CostKind::kBits, "float"), ElementsAre(12, 32, 0, 0));
  EXPECT_THAT(CostsOfType(CostKind::kBits, "float16"), ElementsAre(12, 16, 0, 0));
  // The mean of the two products.
  EXPECT_THAT(CostsOfType(CostKind::kMacBits, "float"),
              ElementsAre(9 * 32 / 2.0, 32 * 32 / 2.0, 32 * 32 / 2.0, 32 * 32 / 2.0));
  EXPECT_THAT(CostsOfType(CostKind::kMacBits, "float16"),
              ElementsAre(9 * 16 / 2.0, 16 * 16 / 2.0, 16 * 16 / 2.0, 16 * 16 / 2.0));
}

TEST_F(SearchOfThree, VariantsBeginWithTheBaseWhateverItCosts) {
  // The base loses more than its variant here, and costs as much.
  const std::vector<Settings> changes{ParseSettings("weights=mx9")};
  space_ = MakeVariantSpace(plan::ConfigByName("mx6"), changes);
  for (LayerLoss& layer : sensitivity_.layers) {
    std::swap(layer.parts[0], layer.parts[1]);
    layer.parts.resize(2);
  }
  const std::map<std::string, uint64_t> same{{"a", 4}, {"b", 4}, {"c", 4}};
  costs_.emplace(CostKind::kBits, model_, space_, sensitivity_, GroupLayers(model_, sensitivity_),
                 std::vector<std::map<std::string, uint64_t>>{same, same}, 1000);
  const SearchResult result = Run(Goals("sqnr>=1", "", Strategy::kGreedy));
  EXPECT_EQ(result.points.size(), 4);
  EXPECT_THAT(result.points.front().choice, ElementsAre(0, 0, 0));
  EXPECT_THAT(result.points[result.chosen].choice, ElementsAre(1, 1, 1));
}

TEST(FindSearchLayers, AreThoseThatTheUserSelects) {
  const graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x) => (float[N,2] y) <float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}>
      { [one] p = MatMul(x, a)  [two] q = MatMul(p, b)  [three] y = Gemm(q, a) })");
  std::vector<plan::ResolvedPlan> parts(1);
  parts[0].plan = plan::MakePlan(plan::ConfigByName("mx6"), model, "");
  const auto names = [&](const LayerSelection& selection) {
    std::vector<std::string> found;
    for (const SearchLayer& layer : FindSearchLayers(model, parts, selection).found) {
      found.push_back(layer.node);
    }
    return found;
  };
  EXPECT_THAT(names({}), ElementsAre("one", "two", "three"));
  EXPECT_THAT(names({.op_types = {"MatMul", "Conv"}}), ElementsAre("one", "two"));
  EXPECT_THAT(names({.names = {"two", "three"}}), ElementsAre("two", "three"));
  EXPECT_THAT(names({.op_types = {"MatMul"}, .kept_names = {"one"}}), ElementsAre("two"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { names({.kept_names = {"onee"}}); }),
              HasSubstr("did you mean 'one'"));
}

TEST(FindSearchLayers, NameThoseInBodies) {
  const graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x, bool c) => (float[N,2] y) <float[2,2] a = {1,2,3,4}>
      { [one] p = MatMul(x, a)
        [if] y = If(c) <then_branch = t () => (float[N,2] u) { [two] u = MatMul(p, a) },
                        else_branch = e () => (float[N,2] v) { v = Relu(p) }> })");
  std::vector<plan::ResolvedPlan> parts(1);
  parts[0].plan = plan::MakePlan(plan::ConfigByName("mx6"), model, "");
  const SearchLayers layers = FindSearchLayers(model, parts, {});
  ASSERT_EQ(layers.found.size(), 1U);
  EXPECT_EQ(layers.found[0].node, "one");
  EXPECT_THAT(layers.left_out, ElementsAre(std::pair("two", "it stands in a body of If 'if'")));
}

TEST_F(SearchOfThree, LayersOfOneWeightAreDecidedTogether) {
  const graph::Model shared = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x) => (float[N,2] y) <float[2,2] a = {1,2,3,4}>
      { p = MatMul(x, a)  q = Relu(p)  y = MatMul(q, a) })");
  Sensitivity sensitivity;
  for (const char* node : {"p", "y"}) sensitivity.layers.push_back({node, "MatMul", 1, {}, {}});
  const std::vector<LayerGroup> groups = GroupLayers(shared, sensitivity);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1));
  EXPECT_THAT(groups[0].weights, ElementsAre("a"));
}

TEST_F(SearchOfThree, BoundLayersOfTransformersAreDecidedTogether) {
  const graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 11,
    opset_import: ["" : 23]>
    g (float[B,S,8] x) => (float[B,S,8] z)
    <float[8,8] q, float[8,8] k, float[8,8] v, float[8,8] o, float[8,16] g, float[8,16] u,
     float[16,8] d>
    { [q] xq = MatMul(x, q)  [k] xk = MatMul(x, k)  [v] xv = MatMul(x, v)
      a = Attention<q_num_heads = 2, kv_num_heads = 2>(xq, xk, xv)  [o] xo = MatMul(a, o)
      y = Add(x, xo)  [g] yg = MatMul(y, g)  [u] yu = MatMul(y, u)  s = Sigmoid(yg)
      t = Mul(yg, s)  m = Mul(t, yu)  [d] yd = MatMul(m, d)  z = Add(y, yd) })");
  Sensitivity sensitivity;
  for (const char* node : {"q", "k", "v", "o", "g", "u", "d"}) {
    sensitivity.layers.push_back({node, "MatMul", 1, {}, {}});
  }
  const auto groups = [&](const std::string& words) {
    std::vector<std::vector<size_t>> layers;
    for (const LayerGroup& group : GroupLayers(model, sensitivity, ParseBindings(words))) {
      layers.push_back(group.layers);
    }
    return layers;
  };
  using Group = std::vector<size_t>;
  EXPECT_EQ(groups("none").size(), 7);
  EXPECT_THAT(groups("qkv"), ElementsAre(Group{0, 1, 2}, Group{3}, Group{4}, Group{5}, Group{6}));
  EXPECT_THAT(groups("gate_up, qkv"), ElementsAre(Group{0, 1, 2}, Group{3}, Group{4, 5}, Group{6}));
  EXPECT_EQ(BindingsText(ParseBindings("gate_up,qkv")), "qkv,gate_up");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [] { ParseBindings("qvk"); }),
              HasSubstr("did you mean 'qkv'"));
}

}  // namespace
}  // namespace bitpress::search
