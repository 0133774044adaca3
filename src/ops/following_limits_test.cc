// The limits of Relu and Clip, whichever way an operator set writes them.
#include "ops/following_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "graph/test_models.h"

namespace bitpress::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

graph::Model ModelOf(int opset, const std::string& node) {
  return graph::FromText(R"(<ir_version: 7, opset_import: ["" : )" + std::to_string(opset) + R"(]>
g (float[4] x, float computed) => (float[4] y) <float six = {6}, float two = {2}> { y = )" +
                         node + "}");
}

std::optional<Limits> LimitsIn(int opset, const std::string& node) {
  const graph::Model model = ModelOf(opset, node);
  return LimitsOf(model, *model.Producer("y"));
}

TEST(Limits, OfReluAndClip) {
  const auto expect = [](const std::optional<Limits>& limits, float least, float largest) {
    ASSERT_TRUE(limits);
    EXPECT_EQ(limits->least, least);
    EXPECT_EQ(limits->largest, largest);
  };
  expect(LimitsIn(13, "Relu (x)"), 0, kInfinity);
  expect(LimitsIn(13, "Clip (x, two, six)"), 2, 6);
  expect(LimitsIn(13, "Clip (x, , six)"), -kInfinity, 6);
  expect(LimitsIn(13, "Clip (x)"), -kInfinity, kInfinity);
  expect(LimitsIn(10, "Clip <min = 1.5, max = 2.5> (x)"), 1.5F, 2.5F);
  EXPECT_FALSE(LimitsIn(13, "Clip (x, computed)"));
  EXPECT_FALSE(LimitsIn(13, "Clip (x, six, two)"));
  EXPECT_FALSE(LimitsIn(13, "Tanh (x)"));
}

TEST(Limits, BehindAValueOfOneReader) {
  const graph::Model model = graph::FromText(R"(<ir_version: 7, opset_import: ["" : 13]>
g (float[4] x) => (float[4] y, float[4] z) <float six = {6}>
{ a = Tanh (x)  y = Clip (a, , six)  b = Tanh (y)  z = Relu (b)  c = Neg (b) })");
  const std::optional<FollowingLimits> limits = LimitsBehind(model, "a");
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->node.output(0), "y");
  EXPECT_EQ(limits->largest, 6);
  EXPECT_FALSE(LimitsBehind(model, "b"));  // two nodes read it
}

}  // namespace
}  // namespace bitpress::ops
