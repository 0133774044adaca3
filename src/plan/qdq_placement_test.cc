// Where Q/DQ pairs stand, for each class of operators on integers (ops/operator_traits.h).
#include "plan/qdq_placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/test_models.h"

namespace bitpress::plan {
namespace {

using testing::ElementsAre;

// Returns the values that get a pair, with "= ROOT" behind those that share a scale.
std::vector<std::string> PairsIn(const std::string& nodes, const std::string& constants = "") {
  const graph::Model model = graph::FromTextWithConstants(fmt::format(
      R"(<ir_version: 9, opset_import: ["" : 19]>
g (float[1, 4, 8, 8] x, int64[1, 4, 8, 8] places) => (float[1, 4, 8, 8] y)
<float[4, 4, 1, 1] w, float[4, 4, 1, 1] v {}>
{{
  a = Conv (x, w)
  {}
  c = Conv (b, v)
  y = Softplus (c)
}})",
      constants, nodes));
  const auto no_reason = [](const auto&) { return std::string(); };
  std::vector<std::string> pairs;
  for (const QdqValue& value : PlaceQdq(model, no_reason, no_reason)) {
    pairs.push_back(value.shares.empty() ? value.name : value.name + " = " + value.shares);
  }
  return pairs;
}

TEST(QdqPlacement, OperatorsThatMoveElementsShareAScale) {
  EXPECT_THAT(PairsIn("b = Transpose (a)"), ElementsAre("x", "a", "b = a", "c"));
  EXPECT_THAT(PairsIn("b = GatherElements <axis = 2> (a, places)"),
              ElementsAre("x", "a", "b = a", "c"));
  EXPECT_THAT(PairsIn("b = MaxPool <kernel_shape = [1, 1]> (a)"),
              ElementsAre("x", "a", "b = a", "c"));
  EXPECT_THAT(PairsIn(R"(b = Resize <mode = "nearest"> (a, , s))", ", float[4] s"),
              ElementsAre("x", "a", "b = a", "c"));
  EXPECT_THAT(PairsIn("b = Concat <axis = 1> (a, a)"), ElementsAre("x", "a", "b = a", "c"));
  EXPECT_THAT(PairsIn("b = Min (a, most)", ", float[1] most"), ElementsAre("x", "a", "b = a", "c"));
}

TEST(QdqPlacement, OperatorsThatDoMoreThanMoveHaveAScaleOfTheirOwn) {
  EXPECT_THAT(PairsIn(R"(b = Resize <mode = "linear"> (a, , s))", ", float[4] s"),
              ElementsAre("x", "a", "b", "c"));
  EXPECT_THAT(PairsIn("b, i = MaxPool <kernel_shape = [1, 1]> (a)"),
              ElementsAre("x", "a", "b", "c"));
  EXPECT_THAT(PairsIn("b = Min (a, x)"), ElementsAre("x", "a", "b", "c"));
}

TEST(QdqPlacement, OperatorsThatComputeOnCodesGiveThem) {
  // Nothing on integers reads `p`: it gets a pair because its operator computes on codes.
  EXPECT_THAT(PairsIn("p = Sigmoid (a)  b = Softplus (p)"), ElementsAre("x", "a", "p", "b", "c"));
  EXPECT_THAT(PairsIn("p = Add (a, x)  b = Softplus (p)"), ElementsAre("x", "a", "p", "b", "c"));
  EXPECT_THAT(PairsIn("p = Softplus (a)  b = Softplus (p)"), ElementsAre("x", "a", "b", "c"));
  EXPECT_THAT(
      PairsIn("p = AveragePool <kernel_shape = [1, 1], dilations = [2, 2]> (a)  b = Softplus (p)"),
      ElementsAre("x", "a", "b", "c"));
}

TEST(QdqPlacement, NoPairStandsBeforeALimit) {
  EXPECT_THAT(PairsIn("b = Relu (a)"), ElementsAre("x", "b", "c"));
}

TEST(QdqPlacement, ValuesThatStayFloatTakeTheirOperatorsWithThem) {
  const graph::Model model = graph::FromTextWithConstants(
      R"(<ir_version: 9, opset_import: ["" : 19]>
g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y)
<float[4, 4, 1, 1] w, float[4, 4, 1, 1] v>
{
  a = Conv (x, w)
  b = Transpose (a)
  c = Conv (b, v)
  y = Softplus (c)
})");
  const NeededQdq needed = NeededValues(model, {"x", "a", "b"});  // not c
  std::vector<std::string> names;
  for (const QdqValue& value : needed.values) names.push_back(value.name);
  EXPECT_THAT(names, ElementsAre("x", "a", "b"));
  EXPECT_THAT(needed.operators, ElementsAre("a"));
}

}  // namespace
}  // namespace bitpress::plan
