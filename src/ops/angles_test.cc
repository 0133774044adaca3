#include "ops/angles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/test_models.h"

namespace bitpress::ops {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

graph::Model Inferred(const char* text) {
  graph::Model model = graph::FromText(text);
  model.InferShapes();
  return model;
}

TEST(AnglesOfPositions, LeadFromIntegersToWaves) {
  const graph::Model model = Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[1,n] positions, float[1,n,4] x) => (float[1,n,4] y, float[1,n,4] z)
    <float[1,4] frequencies = {1, 0.1, 0.01, 0.001}, int64[1] last = {2}, float s = {0.5}>
    { p = Cast<to = 1>(positions)  u = Unsqueeze(p, last)  a = MatMul(u, frequencies)
      h = Mul(a, s)  c = Cos(h)  y = Mul(x, c)  e = MatMul(x, x)  z = Sin(e) })");
  EXPECT_THAT(AnglesOfPositions(model), UnorderedElementsAre("p", "u", "a", "h"));
}

TEST(AnglesOfPositions, NeedAWave) {
  const graph::Model model = Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[1,n,4] features) => (float[1,n,2] y)
    <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
    { p = Cast<to = 1>(features)  y = MatMul(p, w) })");
  EXPECT_THAT(AnglesOfPositions(model), IsEmpty());
}

}  // namespace
}  // namespace bitpress::ops
