#include "graph/narrow_to_half.h"

#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;

constexpr const char* kNetwork = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  agraph (float[1, 4] x, int64[1, 4] i) => (float[1, 4] y, float[1, 4] z)
  <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1e30, 14, 15, 16}, float[1] b = {0.5}>
  {
    h = MatMul(x, w)
    c = Cast<to = 1>(i)
    s = Add(h, c)
    t = Softmax(s)
    y = Add(t, b)
    z = RandomNormalLike(s)
  })";

std::vector<std::string> Types(const Model& model) {
  std::vector<std::string> types;
  for (const Node& node : model.AllNodes()) {
    std::string text = node.op_type();
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      text += model.InfoOf(node.input(i)).type == DataType::kFloat16 ? " half" : " -";
    }
    text += model.InfoOf(node.output(0)).type == DataType::kFloat16 ? " -> half" : " -> -";
    types.push_back(text);
  }
  return types;
}

Model Inferred(const char* text) {
  Model model = FromText(text);
  model.InferShapes();
  return model;
}

TEST(NarrowToHalf, CastsStandBetweenBothTypes) {
  Model model = Inferred(kNetwork);
  std::vector<FloatNode> kept(model.AllNodes().size());
  kept[3].reason = "Softmax";
  const NarrowedConstants report = NarrowToHalf(model, kept);
  model.CheckInFull();
  EXPECT_THAT(Types(model), ElementsAre("Cast - -> half", "MatMul half half -> half",
                                        "Cast - -> half", "Add half half -> half", "Cast half -> -",
                                        "Softmax - -> -", "Cast - -> half", "Add half half -> half",
                                        "Cast half -> -", "RandomNormalLike - -> -"));
  EXPECT_EQ(report.num_constants, 2U);
  EXPECT_EQ(report.num_clipped, 1U);
  EXPECT_EQ(model.Initializer("w").values<uint16_t>()[12], 0x7BFF);
  EXPECT_EQ(model.InfoOf("x").type, DataType::kFloat);
  EXPECT_EQ(model.InfoOf("y").type, DataType::kFloat);
}

TEST(NarrowToHalf, AConstantOfBothTypesIsThere) {
  Model model = Inferred(kNetwork);
  std::vector<FloatNode> kept(model.AllNodes().size());
  kept[0].reason = "the product keeps FLOAT";
  NarrowToHalf(model, kept);
  model.CheckInFull();
  EXPECT_EQ(model.Initializer("w").type, DataType::kFloat);
  EXPECT_EQ(model.Initializer("b").type, DataType::kFloat16);
}

TEST(NarrowToHalf, BodiesExchangeFloats) {
  Model model = Inferred(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[1, 4] x, bool c) => (float[1, 4] y)
    <float[1] b = {0.5}>
    {
      h = Relu(x)
      y = If(c) <
        then_branch = g1 () => (float[1, 4] p) { q = Add(h, b) p = Neg(q) },
        else_branch = g2 () => (float[1, 4] r) <float[1] d = {2}> { r = Mul(h, d) }>
    })");
  NarrowToHalf(model, std::vector<FloatNode>(model.AllNodes().size()));
  model.CheckInFull();
  EXPECT_THAT(Types(model),
              ElementsAre("Cast - -> half", "Relu half -> half", "Add half half -> half",
                          "Neg half -> half", "Cast half -> -", "Cast - -> half",
                          "Mul half half -> half", "Cast half -> -", "If - -> -"));
  EXPECT_EQ(model.InfoOf("h").type, DataType::kFloat16);
}

TEST(NarrowToHalf, PortsAreWhatTheSchemaLeavesOpen) {
  const Model model = Inferred(R"(
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    agraph (float[1, 1, 4, 4] x, float[N, M] boxes) => (float[N] y)
    <float[0] roi = {}, float[4] scales = {1, 1, 2, 2}>
    {
      r = Resize(x, roi, scales)
      f = local.Own(r)
      e = EyeLike(boxes)
      y = ReduceSum<keepdims = 0>(f)
    }
    <domain: "local", opset_import: ["" : 17]>
    Own (a) => (b) { b = Neg(a) })");
  const std::vector<HalfPorts> ports = FindHalfPorts(model);
  EXPECT_THAT(ports[0].inputs, ElementsAre(true, true, false));
  EXPECT_THAT(ports[0].outputs, ElementsAre(true));
  EXPECT_EQ(ports[1].why_float, "operators of local keep FLOAT");
  EXPECT_EQ(ports[2].why_float, "its type is an attribute");
}

}  // namespace
}  // namespace bitpress::graph
