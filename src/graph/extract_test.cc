#include "graph/extract.h"

#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The model is x -> a -> b -> y, with a side branch from a to z.
Model Branched() {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x, float[2] s) => (float[N,2] y, float[N,2] z)
    <float[2] w = {1, 2}, float[2] v = {3, 4}>
    { a = Mul(x, w)  b = Add(a, s)  y = Mul(b, v)  z = Sub(a, w) })");
  model.InferShapes();
  return model;
}

std::vector<std::string> Operators(const Model& model) {
  std::vector<std::string> types;
  for (const Node& node : model.Nodes()) types.push_back(node.op_type());
  return types;
}

TEST(Extract, HasWhatTheOutputsNeedOnly) {
  const Model model = Branched();
  const Model part = Extract(model, std::vector<std::string>{"a"}, std::vector<std::string>{"y"});
  EXPECT_THAT(Operators(part), ElementsAre("Add", "Mul"));
  EXPECT_THAT(part.InputNames(), ElementsAre("a", "s"));
  EXPECT_THAT(part.OutputNames(), ElementsAre("y"));
  EXPECT_THAT(part.InitializerNames(), ElementsAre("v"));
  part.Check();
  // The original model has not changed.
  EXPECT_THAT(Operators(model), ElementsAre("Mul", "Add", "Mul", "Sub"));
}

TEST(Extract, AValueInTheMiddleBecomesAnOutput) {
  const Model part =
      Extract(Branched(), std::vector<std::string>{}, std::vector<std::string>{"a", "z"});
  EXPECT_THAT(Operators(part), ElementsAre("Mul", "Sub"));
  EXPECT_THAT(part.InputNames(), ElementsAre("x"));
  EXPECT_THAT(part.OutputNames(), ElementsAre("a", "z"));
  part.Check();
}

TEST(Extract, BodiesKeepWhatTheyCapture) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2] x) => (float[2] y)
    <float[2] w = {1, 2}>
    { a = Mul(x, w)
      b = Neg(a)
      y = If(c) <then_branch = t () => (float[2] u) { u = Add(a, w) },
                 else_branch = e () => (float[2] v) { v = Identity(b) }> })");
  model.InferShapes();
  const Model part =
      Extract(model, std::vector<std::string>{"a", "b"}, std::vector<std::string>{"y"});
  EXPECT_THAT(Operators(part), ElementsAre("If"));
  EXPECT_THAT(part.InputNames(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(part.InitializerNames(), ElementsAre("w"));
  part.Check();
}

TEST(Extract, RefusesOutputsThatNoNodeGives) {
  const Model model = Branched();
  EXPECT_THAT(
      ExpectError(
          ErrorCode::kInvalidArgument,
          [&] { Extract(model, std::vector<std::string>{}, std::vector<std::string>{"w"}); }),
      testing::HasSubstr("'w'"));
  EXPECT_THAT(
      ExpectError(
          ErrorCode::kInvalidArgument,
          [&] { Extract(model, std::vector<std::string>{"y"}, std::vector<std::string>{"y"}); }),
      testing::HasSubstr("'y'"));
}

}  // namespace
}  // namespace bitpress::graph
