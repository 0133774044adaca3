#include "graph/clean_up.h"
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

std::vector<std::string> OperatorsOf(const Model& model) {
  std::vector<std::string> operators;
  for (const Node& node : model.AllNodes()) operators.push_back(node.op_type());
  return operators;
}

Node NodeOf(const Model& model, std::string_view op_type) {
  for (const Node& node : model.AllNodes()) {
    if (node.op_type() == op_type) return node;
  }
  ADD_FAILURE() << "no " << op_type;
  return model.Nodes().front();
}

TEST(Bodies, ValuesAreListedWithoutConstants) {
  const Model model = FromText(kNested);
  EXPECT_THAT(Names(model.BodyValues()), ElementsAre("inner", "b", "d", "e", "inner_1"));
}

TEST(Bodies, OneNameIsOneValue) {
  const Model model = FromText(kNested);
  model.Check();
  EXPECT_EQ(NodeOf(model, "Add").output(0), "inner_1");
  EXPECT_EQ(NodeOf(model, "Neg").input(0), "inner") << "captured from the body around it";
  EXPECT_EQ(model.Producer("inner")->op_type(), "Relu");
  EXPECT_EQ(model.Producer("inner_1")->op_type(), "Add");
  EXPECT_TRUE(model.IsOutput("inner_1") && model.IsOutput("b") && !model.IsOutput("inner"));
  // Names that nothing else has are kept, and loading again changes nothing.
  EXPECT_EQ(ToProto(Model::Parse(model.Serialize())).SerializeAsString(),
            ToProto(model).SerializeAsString());
}

TEST(Bodies, NewNamesReachBodiesInside) {
  const Model model = FromText(R"(
  <ir_version: 8, opset_import: ["" : 17]>
  agraph (float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = yes () => (float[2] inner) { inner = Relu (x) },
                else_branch = no () => (float[2] b) {
        inner = Exp (x)
        b = If (c) <then_branch = deep () => (float[2] d) { d = Neg (inner) },
                    else_branch = deeper () => (float[2] e) { e = Abs (x) }>
      }>
  })");
  EXPECT_EQ(NodeOf(model, "Exp").output(0), "inner_1");
  EXPECT_EQ(NodeOf(model, "Neg").input(0), "inner_1");
  EXPECT_EQ(NodeOf(model, "Abs").input(0), "x");
}

TEST(Bodies, NodesKnowWhereTheyStand) {
  const Model model = FromText(kNested);
  EXPECT_THAT(OperatorsOf(model), ElementsAre("Relu", "Neg", "Abs", "If", "Constant", "Add", "If"));
  const Node main = model.Nodes().front();
  const Node inner_if = *model.Producer("b");
  EXPECT_FALSE(model.Owner(main));
  EXPECT_EQ(model.Owner(NodeOf(model, "Relu")), main);
  EXPECT_EQ(model.Owner(NodeOf(model, "Neg")), inner_if);
  EXPECT_TRUE(model.AreInOneGraph(NodeOf(model, "Relu"), inner_if));
  EXPECT_FALSE(model.AreInOneGraph(NodeOf(model, "Neg"), NodeOf(model, "Abs")));
  EXPECT_TRUE(model.Uses("x").empty());
  EXPECT_EQ(model.AllUses("x").size(), 2u);
  EXPECT_TRUE(model.IsUsedInSubgraph("x") && model.IsUsedInSubgraph("inner"));
  EXPECT_EQ(model.NodeBehind("inner"), inner_if);
  EXPECT_FALSE(model.NodeBehind("b"));
  EXPECT_EQ(model.InfoOf("inner_1").type, DataType::kFloat);
}

TEST(Bodies, NodesComeAndGo) {
  Model model = FromText(kNested);
  const Node relu = NodeOf(model, "Relu");
  model.InsertNode({"", "Sigmoid", "", {"x"}, {"s"}, {}}, relu);
  NodeOf(model, "Relu").set_input(0, "s");
  const Node added = model.InsertNode({"", "Tanh", "", {"inner"}, {"t"}, {}}, std::nullopt, relu);
  model.Check();
  EXPECT_THAT(OperatorsOf(model),
              ElementsAre("Sigmoid", "Relu", "Neg", "Abs", "If", "Tanh", "Constant", "Add", "If"));
  model.RemoveNode(added);
  EXPECT_EQ(ErrorOf([&] { model.RemoveNode(relu); }).code(), ErrorCode::kInvalidArgument);
  // The bodies of the If go with it, and so do the uses of the values that they read.
  Node choose = model.Nodes().front();
  choose.set_output(0, "unused");
  model.RemoveNode(choose);
  EXPECT_TRUE(model.AllNodes().empty());
  EXPECT_FALSE(model.IsUsedInSubgraph("x") || model.Producer("inner"));
  EXPECT_EQ(model.FreshName("inner_1"), "inner_1");
}

TEST(Bodies, AValueOfABodyIsNoOutputOfTheGraph) {
  Model model = FromText(kNested);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { model.AddOutput("inner"); }),
              testing::HasSubstr("a body produces it"));
  EXPECT_FALSE(model.IsOutput("inner"));
  model.Check();
}

TEST(Bodies, ANodeIsInsertedBehindAValue) {
  Model model = FromText(kNested);
  EXPECT_TRUE(model.InsertBehindBodyValue("inner", {"", "Identity", "", {}, {}, {}}));
  EXPECT_TRUE(model.InsertBehindBodyValue("inner_1", {"", "Identity", "", {}, {}, {}}));
  EXPECT_FALSE(model.InsertBehindBodyValue("y", {"", "Identity", "", {}, {}, {}}));
  model.Check();
  EXPECT_THAT(Names(model.BodyValues()),
              ElementsAre("inner_before", "inner", "b", "d", "e", "inner_1_before", "inner_1"));
  EXPECT_THAT(OperatorsOf(model), ElementsAre("Relu", "Identity", "Neg", "Abs", "If", "Constant",
                                              "Add", "Identity", "If"));
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
  EXPECT_TRUE(model.IsBodyInput("state") && !model.IsInput("state") && !model.IsBodyInput("next"));
  EXPECT_TRUE(model.InsertBehindBodyValue("state", {"", "Identity", "", {}, {}, {}}));
  model.Check();
  EXPECT_TRUE(model.IsBodyInput("state_before") && !model.IsBodyInput("state"));
  EXPECT_EQ(model.AllNodes()[0].input(0), "state_before");
  EXPECT_EQ(model.AllNodes()[1].op_type(), "Relu");
  EXPECT_EQ(model.AllNodes()[1].input(0), "state");
}

TEST(Bodies, WeightsAreLiftedOnce) {
  Model model = FromText(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[2] x, bool c) => (float[2] y) {
      y = If (c) <then_branch = yes () => (float[2] b) {
          w = Constant <value = float[2] {1, 2}> ()
          s = Constant <value = float {3}> ()
          axes = Constant <value = int64[1] {0}> ()
          a = Mul (x, w)
          b = Mul (a, s)
        }, else_branch = no () => (float[2] d)
        <float[2] w = {1, 2}, float[2] v = {1, 3}> {
          e = Mul (x, w)
          d = Mul (e, v)
        }>
    })");
  EXPECT_EQ(LiftBodyConstants(model), 3u);
  model.Check();
  EXPECT_THAT(model.InitializerNames(), ElementsAre("w", "v"));
  EXPECT_EQ(model.AllUses("w").size(), 2u);
  EXPECT_TRUE(model.IsUsedInSubgraph("w") && model.Uses("w").empty());
  EXPECT_THAT(OperatorsOf(model),
              ElementsAre("Constant", "Constant", "Mul", "Mul", "Mul", "Mul", "If"));
  EXPECT_EQ(LiftBodyConstants(model), 0u);
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
