// Tests of shape inference and the clean-up passes.
#include "formats/format_spec.h"
#include "graph/clean_up.h"
#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Returns a text such as "FLOAT [N, 4]".
std::string Describe(const ValueInfo& info) {
  std::string text(DataTypeName(info.type));
  if (!info.has_shape) return text + " ?";
  text += " [";
  for (size_t i = 0; i < info.shape.size(); ++i) {
    const Dimension& dim = info.shape[i];
    text += (i == 0 ? "" : ", ") + (dim.value >= 0 ? std::to_string(dim.value) : dim.symbol);
  }
  return text + "]";
}

Model WithOperator(const std::string& domain, const std::string& node) {
  return FromText(R"(<ir_version: 8, opset_import: ["" : 17, ")" + domain + R"(" : 1]>
    g (float[N,3,H] x, float s) => (float[M,K] y)
    <uint16 z = {0}, bfloat16 b = {0}, int64[2] shape = {0, -1}>
    { q = )" + node +
                  R"(  r = Identity(q)  f = Cast<to = 1>(r)  y = Reshape(f, shape) })");
}

TEST(InferShapes, GoesThroughEveryOperatorOfOurs) {
  std::vector<std::pair<std::string, std::string>> cases{
      {"com.amd.quark", "MXQuantizeDequantize<axis = 1>(x)"},
      {"com.amd.quark", "BFPQuantizeDequantize<bfp_method = \"to_bfp\">(x)"},
      {"com.amd.quark", "ExtendedDequantizeLinear(x, s, z)"},
      {"com.vai.quantize", "MXFixNeuron(x)"},
      {"com.vai.quantize", "BFPFixNeuron(x)"},
      {"com.vai.quantize", "VitisDequantizeLinear(x, s, z)"},
      {"bitpress", "QuantizeDequantize_bfp<bits = 13, block_size = 32, exponent_bits = 8>(x)"}};
  size_t num_formats = 0;
  for (const formats::FormatSpec& format : formats::AllFormats()) {
    if (format.is_integer()) continue;
    cases.emplace_back("bitpress", "QuantizeDequantize_" + format.name + "<axis = 1>(x)");
    ++num_formats;
  }
  EXPECT_GE(num_formats, 14);
  for (const auto& [domain, node] : cases) {
    SCOPED_TRACE(node);
    Model model = WithOperator(domain, domain + "." + node);
    model.InferShapes();
    EXPECT_EQ(Describe(model.InfoOf("r")), "FLOAT [N, 3, H]");
    EXPECT_EQ(model.InfoOf("y").shape.size(), 2);
  }
}

TEST(InferShapes, CodesHaveTheTypeOfTheZeroPoint) {
  for (const auto& [domain, name] : {std::pair{"com.amd.quark", "ExtendedQuantizeLinear"},
                                     std::pair{"com.vai.quantize", "VitisQuantizeLinear"}}) {
    const std::string node = std::string(domain) + "." + name;
    Model model = WithOperator(domain, node + "(x, s, z)");
    model.InferShapes();
    EXPECT_EQ(Describe(model.InfoOf("r")), "UINT16 [N, 3, H]");
    Model bfloat16 = WithOperator(domain, node + "(x, s, b)");
    bfloat16.InferShapes();
    EXPECT_EQ(Describe(bfloat16.InfoOf("r")), "BFLOAT16 [N, 3, H]");
  }
}

TEST(InferShapes, OperatorsWithOneTypeOfOutputHaveIt) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (float[N, 3] x) => (float[N, 3] y) {
      scaled = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x)
      r = Relu (scaled)
      y = Neg (r) })");
  model.InferShapes();
  EXPECT_EQ(model.InfoOf("scaled").type, DataType::kFloat);
  EXPECT_EQ(model.InfoOf("r").type, DataType::kFloat);
  model.CheckInFull();
}

TEST(InferShapes, LeavesNoDescriptionWithoutAType) {
  // A product with something unknown has a shape, but no type.
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17, "strange" : 1]>
    g (float[2, 3] x) => (float[2, 4] y) <float[3, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
      unknown = strange.Operator (x)
      product = MatMul (unknown, w)
      y = Relu (product) })");
  model.InferShapes();
  const onnx::ModelProto proto = ToProto(model);
  for (const auto& info : proto.graph().value_info()) {
    EXPECT_NE(info.type().tensor_type().elem_type(), onnx::TensorProto::UNDEFINED) << info.name();
  }
  model.Check();
}

TEST(Check, DescriptionsHaveTypes) {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) { h = Relu (x)  y = Neg (h) })");
  onnx::ValueInfoProto& info = *proto.mutable_graph()->add_value_info();
  info.set_name("h");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::UNDEFINED);
  // It says nothing, so that it is left out.
  Model model = FromProto(proto);
  EXPECT_EQ(ToProto(model).graph().value_info_size(), 0);
  model.SetInfo("h", {DataType::kUndefined, true, {{2, ""}}});
  const Error error = ErrorOf([&] { model.Check(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
  EXPECT_THAT(error.what(), HasSubstr("'h'"));
}

TEST(CheckInFull, ComparesStatedTypesWithInferredOnes) {
  const Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3] x) => (float[2, 4] y) <float[5, 4] w = {1,2,3,4,5,6,7,8,9,10,1,2,3,4,5,6,7,8,9,0}>
    { y = MatMul (x, w) })");
  model.Check();
  const Error error = ErrorOf([&] { model.CheckInFull(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
}

TEST(InferShapes, WrongNumbersOfInputsAreRefusedAtLoad) {
  const Error error =
      ErrorOf([] { WithOperator("bitpress", "bitpress.QuantizeDequantize_mx6(x, s)"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
}

constexpr const char* kUnknown = R"(<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
  g (float[N,4] x) => (float[N,2] y)
  <float[N,8] b, float[N,9] a, float[4,2] w = {1,2,3,4,5,6,7,8}>
  { a = Relu(x)  b = other.Mystery(a)  c = Relu(b)  d = Split <axis = 0> (c)  y = MatMul(x, w) })";

TEST(InferShapes, TrustsItselfFirstAndTheFileWhereItKnowsNothing) {
  Model model = FromText(kUnknown);
  EXPECT_EQ(Describe(model.InfoOf("a")), "FLOAT [N, 9]");
  model.InferShapes();
  EXPECT_EQ(Describe(model.InfoOf("a")), "FLOAT [N, 4]") << "the file is wrong";
  EXPECT_EQ(Describe(model.InfoOf("b")), "FLOAT [N, 8]") << "only the file knows";
  EXPECT_EQ(Describe(model.InfoOf("c")), "FLOAT [N, 8]");
  model.InferShapes();
  EXPECT_EQ(Describe(model.InfoOf("c")), "FLOAT [N, 8]");
  const onnx::ModelProto proto = ToProto(model);
  std::vector<std::string> names;
  for (const auto& info : proto.graph().value_info()) names.push_back(info.name());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "one entry a value";
  EXPECT_THAT(names, testing::Not(testing::Contains("y")));
}

TEST(InferShapes, CorrectsOutputsThatContradictTheOperators) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[M,8] rank, float[N,3] length, float[batch,4] name, float[2,4] known)
    {
      one = Constant <value = int64[1] {0}> ()
      rank = Unsqueeze(x, one)
      length = Relu(x)
      name = Relu(x)
      known = Relu(x)
    })");
  EXPECT_THROW(model.CheckInFull(), Error);
  model.InferShapes();
  EXPECT_EQ(Describe(model.InfoOf("rank")), "FLOAT [1, N, 4]");
  EXPECT_EQ(Describe(model.InfoOf("length")), "FLOAT [N, 4]");
  EXPECT_EQ(Describe(model.InfoOf("name")), "FLOAT [batch, 4]") << "as the file states it";
  EXPECT_EQ(Describe(model.InfoOf("known")), "FLOAT [2, 4]") << "as the file states it";
  EXPECT_NO_THROW(model.CheckInFull());
}

TEST(InferShapes, LeavesLargeInitializersAlone) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,K] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> { y = MatMul(x, w) })");
  model.SetInitializer("w", Tensor{DataType::kFloat, {4, 5000}, std::vector<std::byte>(80000)});
  const std::byte* const data = model.Initializer("w").bytes.data();
  model.InferShapes();
  EXPECT_EQ(Describe(model.InfoOf("y")), "FLOAT [N, 5000]");
  EXPECT_EQ(model.Initializer("w").bytes.data(), data);
  EXPECT_LT(ModelAccess::Impl(model).proto.ByteSizeLong(), 1000);
}

TEST(RemoveUnused, TakesWhatNothingReads) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>
    g (float[N,4] x, bool c, float[1] unused_input) => (float[N,4] y)
    <float[N,4] dead1, float[N,4] gone, float[N,4] a,
     float[1] in_body = {1.0}, float[1] nowhere = {1.0}, float[1] for_dead = {2.0}>
    {
      a = Relu(x)
      dead1 = Mul(a, for_dead)
      dead2 = com.microsoft.Gelu(dead1)
      kept, unread = Split <axis = 1> (a)
      y = If (c) <
        then_branch = g1 () => (float[N,4] t) { t = Add(kept, in_body) },
        else_branch = g2 () => (float[N,4] e) { e = own.Op(kept) }
      >
    })");
  // The pass removes dead1, dead2; nowhere, for_dead; com.microsoft; value_info of dead1 and gone.
  EXPECT_EQ(RemoveUnused(model), 7);
  EXPECT_EQ(model.Nodes().size(), 3);
  EXPECT_THAT(model.InitializerNames(), ElementsAre("in_body"));
  EXPECT_THAT(model.OpsetImports(), ElementsAre(Pair("", 17), Pair("own", 1)));
  EXPECT_EQ(Describe(model.InfoOf("a")), "FLOAT [N, 4]");
  EXPECT_THAT(model.InputNames(), ElementsAre("x", "c", "unused_input"));
  EXPECT_FALSE(model.Producer("dead1"));
  EXPECT_EQ(model.Uses("a").size(), 1);
  EXPECT_EQ(RemoveUnused(model), 0);
  model.Check();
}

TEST(RemoveUnused, KeepsWhatFunctionsUseAndHandles) {
  Model model = FromText(R"(<ir_version: 9, opset_import: ["" : 17, "local" : 1, "own" : 2]>
    g (float[N] x) => (float[N] y) { [dead] d = Relu(x) [live] y = local.F(x) }
    <domain: "local", opset_import: ["" : 17, "own" : 2]> F (a) => (b) { b = own.Op(a) })");
  const Node live = FindNode(model, "live");
  EXPECT_EQ(RemoveUnused(model), 1);
  EXPECT_EQ(model.OpsetImports().size(), 3);
  EXPECT_EQ(model.Producer("y"), live);
  EXPECT_EQ(live.name(), "live");
}

TEST(ConstantsToInitializers, EveryKindOfValue) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,4] y, float[2] constant_output) {
      t = Constant <value = float[2,2] {1.0, 2.0, 3.0, 4.0}> ()
      f = Constant <value_float = 1.5> ()
      fs = Constant <value_floats = [1.0, 2.0]> ()
      i = Constant <value_int = 7> ()
      is = Constant <value_ints = [1, 2, 3]> ()
      s = Constant <value_string = "word"> ()
      constant_output = Constant <value_floats = [1.0, 2.0]> ()
      y = Relu(x)
    })");
  EXPECT_EQ(ConstantsToInitializers(model), 6);
  EXPECT_EQ(ConstantsToInitializers(model), 0);
  EXPECT_THAT(model.InitializerNames(), ElementsAre("t", "f", "fs", "i", "is", "s"));
  EXPECT_THAT(model.Initializer("t").dims, ElementsAre(2, 2));
  EXPECT_THAT(model.Initializer("t").values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(model.Initializer("f").dims, IsEmpty());
  EXPECT_THAT(model.Initializer("f").values<float>(), ElementsAre(1.5f));
  EXPECT_THAT(model.Initializer("i").values<int64_t>(), ElementsAre(7));
  EXPECT_THAT(model.Initializer("is").dims, ElementsAre(3));
  EXPECT_THAT(model.Initializer("is").values<int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(model.Initializer("s").type, DataType::kString);
  EXPECT_TRUE(model.Producer("constant_output")) << "an output keeps its node";
  EXPECT_FALSE(model.Producer("t"));
  EXPECT_EQ(model.Nodes().size(), 2);
  static_cast<void>(Model::Parse(model.Serialize()));
}

TEST(ConstantsToInitializers, LargeConstantsLeaveTheMessage) {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,5000] x) => (float[N,5000] y) {
      k = Constant <value = float[1] {1.0}> ()
      y = Add(x, k)
    })");
  auto& tensor = *proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_t();
  tensor.set_dims(0, 5000);
  tensor.clear_float_data();
  tensor.set_raw_data(std::string(20000, '\1'));
  Model model = FromProto(proto);
  EXPECT_EQ(ConstantsToInitializers(model), 1);
  EXPECT_EQ(model.Initializer("k").bytes.size(), 20000);
  EXPECT_EQ(model.Uses("k").size(), 1);
  EXPECT_LT(ModelAccess::Impl(model).proto.ByteSizeLong(), 1000);
}

// A Loop with the states h, w, t: w is constant inside, t changes. `outputs` are those of the Loop.
Model WithLoop(const std::string& outputs, const std::string& scanned = "round") {
  return FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,2] x, int64 n) => (float[2,2] y, float[2,2] z)
    <bool go = {1}, float[2,2] weight = {1, 2, 3, 4}, float[2,2] other = {1, 0, 0, 1}> {
      )" + outputs +
                  R"( = Loop (n, go, x, weight, other) <body = rounds
        (int64 i, bool goes, float[2,2] h, float[2,2] w, float[2,2] t)
        => (bool still, float[2,2] next, float[2,2] w, float[2,2] moved, float[2,2] )" +
                  scanned + R"() {
          still = Identity (goes)
          turned = If (goes) <then_branch = a () => (float[2,2] p) { p = MatMul (h, w) },
                              else_branch = b () => (float[2,2] q) { q = Transpose (w) }>
          next = Add (turned, t)
          moved = Neg (t)
          round = Relu (next) }>
      z = Neg (b) })");
}

TEST(TakeConstantsOutOfLoops, TheBodyReadsTheConstantItself) {
  Model model = WithLoop("y, b, c, d");
  EXPECT_EQ(TakeConstantsOutOfLoops(model), 1U);
  EXPECT_EQ(TakeConstantsOutOfLoops(model), 0U);
  model.Check();
  const Node loop = model.Nodes()[0];
  ASSERT_EQ(loop.num_inputs(), 4U);
  EXPECT_EQ(loop.input(2), "x");
  EXPECT_EQ(loop.input(3), "other");
  ASSERT_EQ(loop.num_outputs(), 3U);
  EXPECT_EQ(loop.output(0), "y");
  EXPECT_EQ(loop.output(1), "c");
  std::vector<std::string> readers;
  for (const Use& use : model.AllUses("weight")) readers.push_back(use.node.op_type());
  EXPECT_THAT(readers, testing::UnorderedElementsAre("MatMul", "Transpose", "Neg"));
  EXPECT_FALSE(model.IsBodyInput("w"));
  EXPECT_TRUE(model.IsBodyInput("t"));
}

TEST(TakeConstantsOutOfLoops, LeavesStatesThatOthersSee) {
  Model output = WithLoop("b, y, c, d");  // the graph gives what became of it
  EXPECT_EQ(TakeConstantsOutOfLoops(output), 0U);
  Model scanned = WithLoop("y, b, c, d", "w");  // and so does the Loop, for each round
  EXPECT_EQ(TakeConstantsOutOfLoops(scanned), 0U);
}

TEST(RemoveAddedAttributes, LeavesThoseOfTheGivenModel) {
  constexpr const char* kText = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[N,4] x) => (float[N,4] y) {{
  a = com.microsoft.Gelu{}(x)
  b = com.microsoft.QuickGelu{}(a)
  y = Softmax{}(b)
}})";
  const Model given = FromText(fmt::format(kText, "", "<alpha = 2.0>", ""));
  Model model =
      FromText(fmt::format(kText, "<added = 1>", "<alpha = 3.0, added = 1>", "<axis = -1>"));
  EXPECT_EQ(RemoveAddedAttributes(given, model), 2U);
  EXPECT_THAT(model.Nodes()[0].AttributeNames(), testing::IsEmpty());
  EXPECT_THAT(model.Nodes()[1].AttributeNames(), testing::ElementsAre("alpha"));
  // ONNX's own operators have the attributes of their operator set, whoever writes them.
  EXPECT_TRUE(model.Nodes()[2].HasAttribute("axis"));
  EXPECT_EQ(RemoveAddedAttributes(given, model), 0U);
}

// A model whose lists are in the given order.
Model WithListsInOrder(const std::string& attributes, const std::string& weights,
                       const std::string& body_weights) {
  return FromText(fmt::format(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,4,4] x, bool c) => (float[1,1,2,2] y) <{1}> {{
      a = Conv <{0}> (x, w)
      y = If (c) <
        then_branch = p () => (float[1,1,2,2] t) <{2}> {{ s = Add (a, r)  t = Mul (s, q) }},
        else_branch = q () => (float[1,1,2,2] f) {{ f = Mul (a, b) }}>
    }})",
                              attributes, weights, body_weights));
}

TEST(PutInOrder, ListsFollowNamesAndFirstUses) {
  Model model = WithListsInOrder("strides = [2, 2], kernel_shape = [1, 1]",
                                 "float[1] z = {9.0}, float[1] b = {8.0}, float[1,1,1,1] w = {7.0}",
                                 "float[1] q = {2.0}, float[1] r = {1.0}");
  Model same = WithListsInOrder("kernel_shape = [1, 1], strides = [2, 2]",
                                "float[1] b = {8.0}, float[1,1,1,1] w = {7.0}, float[1] z = {9.0}",
                                "float[1] r = {1.0}, float[1] q = {2.0}");
  EXPECT_NE(model.Fingerprint(), same.Fingerprint());
  PutInOrder(model);
  PutInOrder(same);
  EXPECT_EQ(model.Serialize(), same.Serialize());
  EXPECT_EQ(model.Fingerprint(), same.Fingerprint());

  EXPECT_THAT(model.Nodes()[0].AttributeNames(), ElementsAre("kernel_shape", "strides"));
  EXPECT_THAT(model.InitializerNames(), ElementsAre("w", "b", "z"));
  EXPECT_EQ(model.Initializer("w").values<float>()[0], 7);
  EXPECT_EQ(model.Initializer("z").values<float>()[0], 9);
  const onnx::ModelProto proto = ToProto(model);
  const auto& constants = proto.graph().node(1).attribute(1).g().initializer();
  ASSERT_EQ(constants.size(), 2);
  EXPECT_EQ(constants[0].name(), "r");
  EXPECT_EQ(constants[1].name(), "q");
}

TEST(NameNodes, AfterTheirOutputsWhereAnotherHasTheName) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, bool c) => (float[2] y) {
      a = Relu (x)
      [a] b = Neg (a)
      [twice] d = Neg (b)
      [twice] e = Neg (d)
      y = If (c) <
        then_branch = p () => (float[2] t) { t = Abs (e) },
        else_branch = q () => (float[2] f) { [twice] f = Identity (e) }>
    })");
  EXPECT_EQ(NameNodes(model), 5);
  std::vector<std::string> names;
  for (const Node& node : model.AllNodes()) names.push_back(node.name());
  EXPECT_THAT(names, ElementsAre("a_2", "a", "twice", "e", "t", "f", "y"));
  EXPECT_EQ(NameNodes(model), 0);
}

TEST(TrimInputs, OmittedOnesAtTheEndGo) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x, bool b) => (float[4] y, float[4] z) <float low = {1.0}, float high = {2.0}> {
      y = Clip (x, low, high)
      z = If (b) <then_branch = t () => (float[4] p) { p = Clip (x, low, high) },
                  else_branch = e () => (float[4] q) { q = Clip (x, low, high) }> })");
  for (Node node : model.AllNodes()) {
    if (node.op_type() != "Clip") continue;
    if (node.output(0) != "q") node.set_input(2, "");
    if (node.output(0) != "p") node.set_input(1, "");
  }
  EXPECT_EQ(TrimInputs(model), 2U);
  std::map<std::string, size_t> num_inputs;
  for (const Node& node : model.AllNodes()) num_inputs[node.output(0)] = node.num_inputs();
  EXPECT_THAT(num_inputs, ElementsAre(Pair("p", 2), Pair("q", 3), Pair("y", 1), Pair("z", 1)));
  EXPECT_EQ(TrimInputs(model), 0U);
}

TEST(FixInitializers, TakesThemOutOfTheInputs) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Mul (x, w) })");
  ASSERT_EQ(ToProto(model).graph().input_size(), 2);
  EXPECT_THAT(FixInitializers(model), ElementsAre("w"));
  EXPECT_THAT(model.InputNames(), ElementsAre("x"));
  EXPECT_EQ(ToProto(model).graph().input_size(), 1);
  EXPECT_EQ(model.Initializer("w").values<float>()[1], 2);
  EXPECT_THAT(FixInitializers(model), IsEmpty());
}

}  // namespace
}  // namespace bitpress::graph
