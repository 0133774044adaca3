// Tests of raising the operator set. That the outputs stay the same in ONNX Runtime is tested end
// to end (tests/e2e/operator_sets_test.py).
#include "graph/clean_up.h"
#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the only node with that operator.
Node Only(const Model& model, const std::string& op_type) {
  std::optional<Node> found;
  for (const Node& node : model.AllNodes()) {
    if (node.op_type() != op_type) continue;
    EXPECT_FALSE(found) << op_type;
    found = node;
  }
  EXPECT_TRUE(found) << op_type;
  return found.value();
}

TEST(RaiseOpset, KeepsDataAndMetadata) {
  Model model = FromText(R"(
    <ir_version: 7, opset_import: ["" : 13]>
    agraph (float[N, K] x) => (float[N, 1] y) <float[1, 1] w = {1}> {
      z = Identity(x)
      y = MatMul(z, w)
    })");
  std::vector<float> values(2000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  model.SetInitializer("w", Tensor{DataType::kFloat, {2000, 1}, BytesOf(values)});
  model.SetMetadata("key", "value");
  EXPECT_EQ(model.RaiseOpset(11), "");
  EXPECT_EQ(model.OpsetImports()[""], 13);
  EXPECT_EQ(model.RaiseOpset(19), "");
  EXPECT_EQ(model.OpsetImports()[""], 19);
  EXPECT_EQ(model.ir_version(), 9);
  EXPECT_EQ(model.Initializer("w").values<float>()[1999], 1999);
  EXPECT_EQ(model.Metadata()["key"], "value");
  EXPECT_EQ(model.Uses("w").size(), 1);
  model.Check();
}

TEST(RaiseOpset, KeepsNamesAndDocumentation) {
  onnx::ModelProto proto = ProtoFromText(R"(
    <ir_version: 4, opset_import: ["" : 9]>
    agraph (float[1,3,4,4] x) => (float[1,3,8,8] y) <float[4] scales = {1, 1, 2, 2}> {
      y = Upsample <mode = "nearest"> (x, scales)
    })");
  proto.mutable_graph()->set_doc_string("of the graph");
  proto.mutable_graph()->mutable_input(0)->set_doc_string("of the input");
  proto.mutable_graph()->mutable_node(0)->set_name("up");
  proto.mutable_graph()->mutable_node(0)->set_doc_string("of the node");
  auto& dim = *proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  dim.mutable_shape()->mutable_dim(1)->set_denotation("DATA_CHANNEL");
  Model model = FromProto(proto);
  EXPECT_EQ(model.RaiseOpset(13), "");
  const onnx::GraphProto& graph = ModelAccess::Impl(model).graph();
  EXPECT_EQ(graph.doc_string(), "of the graph");
  EXPECT_EQ(graph.input(0).doc_string(), "of the input");
  EXPECT_EQ(graph.input(0).type().tensor_type().shape().dim(1).denotation(), "DATA_CHANNEL");
  ASSERT_EQ(graph.node_size(), 1);
  EXPECT_EQ(graph.node(0).op_type(), "Resize");
  EXPECT_EQ(graph.node(0).name(), "up");
  EXPECT_EQ(graph.node(0).doc_string(), "of the node");
  EXPECT_THAT(graph.node(0).input(), ElementsAre("x", "", "scales"));
  const Node node = Only(model, "Resize");
  EXPECT_EQ(node.GetString("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(node.GetString("nearest_mode", ""), "floor");
}

TEST(RaiseOpset, ResizesThatGrowAndShrinkBecomeTwo) {
  Model model = FromText(R"(
    <ir_version: 5, opset_import: ["" : 10]>
    agraph (float[1,3,4,9] x) => (float[1,3,8,6] y) <float[4] scales = {1, 1, 2, 0.75}> {
      y = Resize <mode = "nearest"> (x, scales)
    })");
  EXPECT_EQ(model.RaiseOpset(13), "");
  const std::vector<Node> nodes = model.Nodes();
  ASSERT_EQ(nodes.size(), 4);  // Max, Min, and both
  EXPECT_EQ(nodes[2].GetString("nearest_mode", ""), "floor");
  EXPECT_EQ(nodes[3].GetString("nearest_mode", ""), "ceil");
  EXPECT_EQ(nodes[3].GetString("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(nodes[3].output(0), "y");
}

TEST(RaiseOpset, AttributesBecomeInputs) {
  Model model = FromText(R"(
    <ir_version: 4, opset_import: ["" : 9]>
    agraph (float16[1,3,4,4] x) => (float16[1,3,8] y) {
      a = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 0.5> (x)
      b = Clip <max = 6.0> (a)
      c = Slice <starts = [0], ends = [1], axes = [3]> (b)
      d = Squeeze <axes = [3]> (c)
      e = ReduceMean <axes = [2], keepdims = 1> (d)
      y = Mul(d, e)
    })");
  model.InferShapes();
  EXPECT_EQ(model.RaiseOpset(21), "");
  const Node pad = Only(model, "Pad");
  EXPECT_THAT(model.Initializer(pad.input(1)).values<int64_t>(),
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_EQ(model.Initializer(pad.input(2)).type, DataType::kFloat16);
  EXPECT_EQ(model.Initializer(pad.input(2)).values<uint16_t>()[0], 0x3800);
  EXPECT_EQ(Only(model, "Clip").input(1), "");
  EXPECT_EQ(model.Initializer(Only(model, "Clip").input(2)).values<uint16_t>()[0], 0x4600);
  EXPECT_THAT(model.Initializer(Only(model, "Slice").input(3)).values<int64_t>(), ElementsAre(3));
  EXPECT_EQ(Only(model, "Squeeze").num_inputs(), 2);
  EXPECT_EQ(Only(model, "ReduceMean").num_inputs(), 2);
  model.CheckInFull();
}

TEST(RaiseOpset, GoesIntoBodies) {
  Model model = FromText(R"(
    <ir_version: 7, opset_import: ["" : 11]>
    agraph (float[2,3] x, bool c) => (float[2] y) {
      y = If (c) <
        then_branch = a () => (float[2] t) { t = ReduceSum <axes = [1], keepdims = 0> (x) },
        else_branch = b () => (float[2] e) { e = ReduceMax <axes = [1], keepdims = 0> (x) } >
    })");
  EXPECT_EQ(model.RaiseOpset(18), "");
  EXPECT_EQ(Only(model, "ReduceSum").num_inputs(), 2);
  EXPECT_EQ(Only(model, "ReduceMax").num_inputs(), 2);
  model.Check();
}

TEST(RaiseOpset, GroupsGiveEachChannelItsScale) {
  Model model = FromText(R"(
    <ir_version: 8, opset_import: ["" : 18]>
    agraph (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[2] s = {1, 2}, float[2] b = {3, 4}> {
      y = GroupNormalization <num_groups = 2> (x, s, b)
    })");
  EXPECT_EQ(model.RaiseOpset(21), "");
  const Node node = Only(model, "GroupNormalization");
  EXPECT_THAT(model.Initializer(node.input(1)).values<float>(), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(model.Initializer(node.input(2)).values<float>(), ElementsAre(3, 3, 4, 4));
}

TEST(RaiseOpset, ARefusalNamesTheNodeAndChangesNothing) {
  Model model = FromText(R"(
    <ir_version: 6, opset_import: ["" : 9]>
    agraph (float[1,3,4,4] x) => (float[1,3,4,4] y) {
      y, mask = Dropout <ratio = 0.5> (x)
      z = Not(mask_used)
      mask_used = Cast <to = 9> (mask)
    })");
  EXPECT_THAT(model.RaiseOpset(13), HasSubstr("Dropout (output 'y') gives a mask of floats"));
  EXPECT_EQ(model.OpsetImports()[""], 9);
}

constexpr const char* kSoftmaxModel = R"(
    <ir_version: 6, opset_import: ["" : 11]>
    agraph (float[N,8,4,4] x) => (float[N,8,4,4] y, float[N,8,1,1] z) {
      y = Softmax(x)
      p = GlobalAveragePool(x)
      z = Softmax <axis = 1> (p)
    })";

TEST(FlattenSoftmax, OnlyWhereThereAreSeveralDimensions) {
  Model model = FromText(kSoftmaxModel);
  model.InferShapes();
  EXPECT_EQ(FlattenSoftmax(model), 1);
  EXPECT_EQ(FlattenSoftmax(model), 0);
  EXPECT_EQ(model.Producer("y")->op_type(), "Reshape");
  EXPECT_THAT(model.Initializer(model.Producer("y")->input(1)).values<int64_t>(),
              ElementsAre(-1, 8, 4, 4));
  EXPECT_EQ(model.Producer("z")->op_type(), "Softmax");
  const size_t num_nodes = model.Nodes().size();
  EXPECT_EQ(model.RaiseOpset(13), "");
  EXPECT_EQ(model.Nodes().size(), num_nodes);
  EXPECT_EQ(model.Producer("z")->GetInt("axis", 0), 1);
  EXPECT_EQ(FlattenSoftmax(model), 0);
  model.CheckInFull();
}

TEST(RaiseOpset, ASoftmaxIsFlattenedWhereThatWasNotDone) {
  Model model = FromText(kSoftmaxModel);
  model.InferShapes();
  EXPECT_EQ(model.RaiseOpset(13), "");
  EXPECT_EQ(model.Producer("y")->op_type(), "Reshape");
  model.CheckInFull();
}

}  // namespace
}  // namespace bitpress::graph
