#include "graph/pattern.h"

#include <algorithm>

#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

Pattern Gelu() {
  const Pattern x = Pattern::Any("x");
  const Pattern half = Pattern::Number(0.5F);
  const Pattern erf = Pattern::Op("Erf", {Pattern::Op("Div", {x, Pattern::Number(1.41421356F)})});
  const Pattern gate = Pattern::Op("Add", {erf, Pattern::Number(1)}, "gate");
  return Pattern::OneOf({Pattern::Op("Mul", {Pattern::Op("Mul", {x, gate}), half}),
                         Pattern::Op("Mul", {Pattern::Op("Mul", {x, half}), gate})});
}

// Returns a model of these nodes, with the constants of a GELU.
Model WithNodes(const std::string& nodes, const std::string& outputs = "float[2] y") {
  return FromText(R"(<ir_version: 8, opset_import: ["": 17]> net (float[2] a, float[2] b) => ()" +
                  outputs + R"() <float root = {1.4142135}, float one = {1}, float half = {0.5},
                  float[2] halves = {0.5, 0.5}> {)" +
                  nodes + "}");
}

std::optional<PatternMatch> MatchOf(const Model& model) {
  return Gelu().MatchAt(model, *model.Producer("y"));
}

constexpr const char* kErf = "d = Div(a, root) e = Erf(d) g = Add(e, one) ";

TEST(Pattern, MatchesInEitherOrderAndForm) {
  for (const char* const end : {"m = Mul(a, g) y = Mul(m, half)", "m = Mul(g, a) y = Mul(half, m)",
                                "m = Mul(half, a) y = Mul(g, m)"}) {
    const Model model = WithNodes(std::string(kErf) + end);
    const auto match = MatchOf(model);
    ASSERT_TRUE(match) << end;
    EXPECT_EQ(match->values.at("x"), "a");
    EXPECT_EQ(match->values.at("gate"), "g");
    ASSERT_EQ(match->nodes.size(), 5U);
    const auto place = [&](const char* value) {
      return std::ranges::find(match->nodes, *model.Producer(value));
    };
    EXPECT_LT(place("d"), place("e")) << "in topological order";
    EXPECT_LT(place("e"), place("g"));
    EXPECT_LT(place("m"), place("y"));
    EXPECT_EQ(match->nodes.back(), *model.Producer("y"));
  }
}

TEST(Pattern, ALabelIsOneValue) {
  EXPECT_FALSE(MatchOf(WithNodes(std::string(kErf) + "m = Mul(b, g) y = Mul(m, half)")));
}

TEST(Pattern, ANumberIsOneConstantOfItsValue) {
  EXPECT_FALSE(MatchOf(WithNodes(std::string(kErf) + "m = Mul(a, g) y = Mul(m, one)")));
  EXPECT_FALSE(MatchOf(WithNodes(std::string(kErf) + "m = Mul(a, g) y = Mul(m, halves)")));
  EXPECT_FALSE(MatchOf(WithNodes(std::string(kErf) + "m = Mul(a, g) y = Mul(m, b)")));
}

TEST(Pattern, NothingElseMayReadAValueInside) {
  const std::string nodes = std::string(kErf) + "m = Mul(a, g) y = Mul(m, half) ";
  EXPECT_FALSE(MatchOf(WithNodes(nodes + "z = Abs(m)", "float[2] y, float[2] z")));
  EXPECT_FALSE(MatchOf(WithNodes(nodes, "float[2] y, float[2] m")));
  EXPECT_TRUE(MatchOf(WithNodes(nodes + "z = Abs(y)", "float[2] y, float[2] z")));
}

TEST(Pattern, FurtherInputsAreConstants) {
  const Pattern pattern = Pattern::Op("Clip", {Pattern::Any("x")});
  const Model constant = WithNodes("y = Clip(a, half)");
  EXPECT_TRUE(pattern.MatchAt(constant, *constant.Producer("y")));
  const Model computed = WithNodes("s = ReduceMax<keepdims = 0>(b) y = Clip(a, s)");
  EXPECT_FALSE(pattern.MatchAt(computed, *computed.Producer("y")));
}

}  // namespace
}  // namespace bitpress::graph
