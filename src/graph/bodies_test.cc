#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;

// Both branches call their value 'inner'; 'b' is captured by a body inside a body.
constexpr const char* kNested = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  agraph (float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = yes () => (float[2] b) {
        inner = Relu (x)
        b = If (c) <then_branch = deep () => (float[2] d) { d = Neg (inner) },
                    else_branch = deeper () => (float[2] e) { e = Abs (inner) }>
      }, else_branch = no () => (float[2] inner) {
        one = Constant <value = float {1}> ()
        inner = Add (x, one)
      }>
  })";

std::vector<std::string> Names(const std::vector<BodyValue>& values) {
  std::vector<std::string> names;
  for (const BodyValue& value : values) names.push_back(value.name);
  return names;
}

TEST(Bodies, ValuesAreListedWithoutConstants) {
  const Model model = FromText(kNested);
  EXPECT_THAT(Names(model.BodyValues()), ElementsAre("inner", "b", "d", "e", "inner"));
}

TEST(Bodies, ANodeIsInsertedBehindEveryValueOfAName) {
  Model model = FromText(kNested);
  EXPECT_EQ(model.InsertBehindBodyValues("inner", {"", "Identity", "", {}, {}, {}}), 2u);
  EXPECT_EQ(model.InsertBehindBodyValues("y", {"", "Identity", "", {}, {}, {}}), 0u);
  model.Check();
  EXPECT_THAT(Names(model.BodyValues()),
              ElementsAre("inner_before", "inner", "b", "d", "e", "inner_before_1", "inner"));
  std::vector<std::string> operators;
  for (const BodyNode& body_node : model.BodyNodes()) {
    operators.push_back(body_node.node.op_type());
  }
  EXPECT_THAT(operators,
              ElementsAre("Relu", "Identity", "If", "Neg", "Abs", "Constant", "Add", "Identity"));
}

TEST(Bodies, InputsAreValuesToo) {
  Model model = FromText(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[2] x, int64 n, bool c) => (float[2] y) {
      y = Loop (n, c, x) <body = turn (int64 i, bool go, float[2] state) => (bool go, float[2] next) {
          next = Relu (state)
        }>
    })");
  EXPECT_THAT(Names(model.BodyValues()), ElementsAre("i", "go", "state", "next"));
  EXPECT_EQ(model.BodyValues()[2].info.type, DataType::kFloat);
  EXPECT_EQ(model.InsertBehindBodyValues("state", {"", "Identity", "", {}, {}, {}}), 1u);
  model.Check();
  EXPECT_EQ(model.BodyNodes()[0].node.input(0), "state_before");
  EXPECT_EQ(model.BodyNodes()[1].node.op_type(), "Relu");
  EXPECT_EQ(model.BodyNodes()[1].node.input(0), "state");
}

TEST(Fingerprint, IsThatOfTheContent) {
  const auto make = [](float value) {
    Model model = FromText(kNested);
    const std::vector<float> values(5000, value);
    const std::vector<int64_t> dims = {5000};
    model.SetInitializer("large", DataType::kFloat, dims, BytesOf(values));
    return model.Fingerprint();
  };
  EXPECT_EQ(make(1.0f), make(1.0f));
  EXPECT_NE(make(1.0f), make(2.0f));
  EXPECT_NE(FromText(kNested).Fingerprint(), make(1.0f));
  EXPECT_EQ(FromText(kNested).Clone().Fingerprint(), FromText(kNested).Fingerprint());
}

}  // namespace
}  // namespace bitpress::graph
