#include "graph/model.h"

#include "graph/stored_bytes.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSmall = R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,4] x) => (float[N,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, 0.5, 0.5, 0.5}>
{
  [scale] h = Mul(x, w)
  [shift] s = Add(h, b)
  [twice] y = Add(s, s)
}
)";

TEST(Model, AnswersAboutItsValues) {
  const Model model = FromText(kSmall);
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_THAT(NodeNames(model), ElementsAre("scale", "shift", "twice"));
  EXPECT_THAT(model.InputNames(), ElementsAre("x"));
  EXPECT_THAT(model.OutputNames(), ElementsAre("y"));
  EXPECT_THAT(model.InitializerNames(), ElementsAre("w", "b"));
  EXPECT_TRUE(model.IsInput("x") && model.IsOutput("y") && model.IsInitializer("w"));
  EXPECT_FALSE(model.IsInput("w") || model.IsOutput("s") || model.IsInitializer("x"));
  EXPECT_EQ(model.Producer("s")->name(), "shift");
  EXPECT_FALSE(model.Producer("x") || model.Producer("no such value"));
  const std::vector<Use> uses = model.Uses("s");
  ASSERT_EQ(uses.size(), 2);
  EXPECT_EQ(uses[0].node, FindNode(model, "twice"));
  EXPECT_EQ(uses[0].input_index + uses[1].input_index, 1);
  EXPECT_THAT(model.Uses("y"), IsEmpty());
  const ValueInfo info = model.InfoOf("x");
  EXPECT_EQ(info.type, DataType::kFloat);
  ASSERT_EQ(info.shape.size(), 2);
  EXPECT_EQ(info.shape[0].symbol, "N");
  EXPECT_EQ(info.shape[0].value, -1);
  EXPECT_EQ(info.shape[1].value, 4);
  EXPECT_EQ(model.InfoOf("w").shape.at(0).value, 4);
  EXPECT_EQ(model.InfoOf("h").type, DataType::kUndefined);
}

TEST(Model, NodesDescribeThemselvesAndTheirAttributes) {
  Model model = FromText(kSmall);
  const Node node = model.InsertNode({"",
                                      "Conv",
                                      "",
                                      {"x", "w"},
                                      {"z"},
                                      {{"group", int64_t{2}},
                                       {"alpha", 0.5f},
                                       {"auto_pad", std::string("VALID")},
                                       {"pads", std::vector<int64_t>{1, 2}},
                                       {"scales", std::vector<float>{0.25f}}}},
                                     std::nullopt);
  EXPECT_EQ(node.Describe(), "Conv (output 'z')");
  EXPECT_EQ(FindNode(model, "scale").Describe(), "Mul 'scale'");
  EXPECT_EQ(node.GetInt("group", 1), 2);
  EXPECT_EQ(node.GetInt("axis", 7), 7);
  EXPECT_EQ(node.GetFloat("alpha", 1), 0.5f);
  EXPECT_EQ(node.GetString("auto_pad", ""), "VALID");
  EXPECT_THAT(node.GetInts("pads"), ElementsAre(1, 2));
  EXPECT_THAT(node.GetInts("strides"), IsEmpty());
  EXPECT_TRUE(node.HasAttribute("scales"));
  EXPECT_FALSE(node.HasSubgraph());
  const Error error = ErrorOf([&] { static_cast<void>(node.GetFloat("group", 1)); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
  EXPECT_STREQ(error.what(), "Conv (output 'z'): attribute 'group' is of type INT, expected FLOAT");
}

TEST(Model, NamesOfNewNodesAreFree) {
  Model model = FromText(kSmall);
  EXPECT_EQ(model.FreshNodeName("new"), "new");
  EXPECT_EQ(model.FreshNodeName("scale"), "scale_1");
  Node added = model.InsertNode({"scale_1", "Identity", "", {"h"}, {"i"}, {}}, std::nullopt);
  EXPECT_EQ(model.Clone().FreshNodeName("scale"), "scale_2");
  model.RemoveNode(added);
  EXPECT_EQ(model.FreshNodeName("scale"), "scale_1");
}

TEST(Model, IndexFollowsChanges) {
  Model model = FromText(kSmall);
  const Node shift = FindNode(model, "shift");
  const Node quantize =
      model.InsertNode({"quantize", "Identity", "", {"h"}, {"h_quantized"}, {}}, shift);
  FindNode(model, "shift").set_input(0, "h_quantized");
  EXPECT_THAT(NodeNames(model), ElementsAre("scale", "quantize", "shift", "twice"));
  EXPECT_EQ(model.Producer("h_quantized"), quantize);
  ASSERT_EQ(model.Uses("h").size(), 1);
  EXPECT_EQ(model.Uses("h")[0].node, quantize);
  ASSERT_EQ(model.Uses("h_quantized").size(), 1);
  EXPECT_EQ(model.Uses("h_quantized")[0].node, shift);
  model.Check();

  EXPECT_EQ(ErrorOf([&] { model.RemoveNode(quantize); }).code(), ErrorCode::kInvalidArgument);
  FindNode(model, "shift").set_input(0, "h");
  model.RemoveNode(quantize);
  EXPECT_FALSE(model.Producer("h_quantized"));
  EXPECT_THAT(model.Uses("h_quantized"), IsEmpty());
  EXPECT_EQ(model.FreshName("h_quantized"), "h_quantized");
  EXPECT_EQ(FindNode(model, "shift"), shift) << "handles of other nodes stay valid";
  model.Check();
}

TEST(Model, OutputsCanBeRenamed) {
  Model model = FromText(kSmall);
  FindNode(model, "twice").set_output(0, "y_exact");
  model.InsertNode({"round", "Round", "", {"y_exact"}, {"y"}, {}}, std::nullopt);
  EXPECT_EQ(model.Producer("y")->name(), "round");
  EXPECT_EQ(model.Producer("y_exact")->name(), "twice");
  model.Check();
  EXPECT_THAT(ErrorOf([&] { FindNode(model, "round").set_output(0, "s"); }).what(),
              HasSubstr("'s': the value exists already"));
  EXPECT_THAT(ErrorOf([&] { FindNode(model, "round").set_output(1, "z"); }).what(),
              HasSubstr("has 1 outputs"));
  EXPECT_THAT(ErrorOf([&] { FindNode(model, "round").set_input(1, "z"); }).what(),
              HasSubstr("has 1 inputs"));
}

TEST(Model, RefusesASecondProducer) {
  Model model = FromText(kSmall);
  for (const char* taken : {"h", "x", "w"}) {
    const Error error = ErrorOf([&] {
      model.InsertNode({"again", "Identity", "", {"x"}, {taken}, {}}, std::nullopt);
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(taken));
  }
  EXPECT_EQ(model.Nodes().size(), 3);
  Model other = FromText(kSmall);
  EXPECT_EQ(ErrorOf([&] { model.RemoveNode(FindNode(other, "scale")); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(Model, ReadsInSubgraphsCount) {
  Model model = FromText(kBranches);
  EXPECT_TRUE(model.IsUsedInSubgraph("a") && model.IsUsedInSubgraph("w"));
  EXPECT_TRUE(model.IsUsedInSubgraph("x")) << "read two levels deep";
  EXPECT_TRUE(model.IsUsedInSubgraph("c"));
  EXPECT_FALSE(model.IsUsedInSubgraph("inner") || model.IsUsedInSubgraph("y"));
  EXPECT_EQ(model.Uses("c").size(), 1) << "in the main graph";
  EXPECT_TRUE(FindNode(model, "choose").HasSubgraph());
  EXPECT_EQ(model.FreshName("inner"), "inner_1");
  EXPECT_EQ(ErrorOf([&] { model.RemoveNode(FindNode(model, "abs")); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { model.RemoveInitializer("w"); }).code(), ErrorCode::kInvalidArgument);

  FindNode(model, "choose").set_output(0, "unused");
  model.RemoveNode(FindNode(model, "choose"));
  EXPECT_FALSE(model.IsUsedInSubgraph("a") || model.IsUsedInSubgraph("w"));
  model.RemoveInitializer("w");
  EXPECT_FALSE(model.IsInitializer("w"));
}

TEST(Model, InitializersAreSetAndRemoved) {
  Model model = FromText(kSmall);
  const std::vector<float> large(5000, 0.25f);
  const std::vector<int64_t> dims{50, 100};
  for (const size_t count : {size_t{5000}, size_t{100}}) {
    const std::vector<int64_t> now{static_cast<int64_t>(count / 50), 50};
    model.SetInitializer("w", DataType::kFloat, now, std::as_bytes(std::span(large).first(count)));
    const InitializerView view = model.Initializer("w");
    EXPECT_EQ(view.type, DataType::kFloat);
    EXPECT_THAT(view.dims, testing::ElementsAreArray(now));
    EXPECT_THAT(view.values<float>(), testing::ElementsAreArray(std::span(large).first(count)));
  }
  EXPECT_THAT(model.InitializerNames(), ElementsAre("w", "b"));
  EXPECT_EQ(model.Uses("w").size(), 1) << "a replaced initializer keeps its uses";

  model.SetInitializer("codes", Tensor{DataType::kInt4, {3}, Bytes("\x21\x03")});
  EXPECT_EQ(model.Initializer("codes").bytes.size(), 2);
  model.RemoveInitializer("codes");
  EXPECT_FALSE(model.IsInitializer("codes"));
  EXPECT_EQ(model.FreshName("codes"), "codes");

  EXPECT_THAT(ErrorOf([&] { static_cast<void>(model.Initializer("nix")); }).what(),
              HasSubstr("no initializer 'nix'"));
  EXPECT_EQ(ErrorOf([&] { model.RemoveInitializer("b"); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(ErrorOf([&] {
                model.SetInitializer("v", Tensor{DataType::kFloat, {3}, Bytes("abc")});
              }).what(),
              HasSubstr("FLOAT [3] takes 12 bytes, not 3"));
  EXPECT_EQ(ErrorOf([&] {
              model.SetInitializer("h", Tensor{DataType::kInt8, {1}, Bytes("a")});
            }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(Model, InputsWithADefaultAreInitializers) {
  onnx::ModelProto proto = ProtoFromText(kSmall);
  onnx::ValueInfoProto& input = *proto.mutable_graph()->add_input();
  input.set_name("w");
  input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(4);
  Model model = FromProto(proto);
  EXPECT_THAT(model.InputNames(), ElementsAre("x"));
  EXPECT_FALSE(model.IsInput("w"));
  EXPECT_TRUE(model.IsInitializer("w"));
  EXPECT_EQ(ToProto(model).graph().input_size(), 2);
  // The new data make it a constant, so that the declared type cannot contradict it.
  model.SetInitializer("w", Tensor{DataType::kFloat, {1}, BytesOf<float>({3})});
  EXPECT_EQ(ToProto(model).graph().input_size(), 1);

  proto.set_ir_version(3);
  onnx::ValueInfoProto second = input;
  second.set_name("b");
  *proto.mutable_graph()->add_input() = second;
  const Model old = FromProto(proto);
  EXPECT_EQ(old.ir_version(), 4) << "from where on initializers need not be inputs";
  EXPECT_THAT(old.InputNames(), ElementsAre("x"));
  EXPECT_EQ(ToProto(old).graph().input_size(), 1);
}

TEST(Model, CloneIsIndependent) {
  Model model = FromText(kSmall);
  model.SetInitializer("w", Tensor{DataType::kFloat, {2000}, BytesOf(std::vector<float>(2000, 3))});
  Model copy = model.Clone();
  EXPECT_EQ(copy.Initializer("w").bytes.data(), model.Initializer("w").bytes.data())
      << "large data are shared";
  copy.SetInitializer("w", Tensor{DataType::kFloat, {1}, BytesOf<float>({7})});
  FindNode(copy, "twice").set_input(1, "h");
  EXPECT_EQ(model.Initializer("w").values<float>().size(), 2000);
  EXPECT_EQ(model.Uses("s").size(), 2);
  EXPECT_EQ(copy.Uses("s").size(), 1);
  const Model moved = std::move(model);
  EXPECT_EQ(FindNode(moved, "scale").input(1), "w");
  EXPECT_EQ(copy.Initializer("b").values<float>()[0], 0.5f);
}

TEST(Model, ImportsAndMetadata) {
  Model model = FromText(kSmall);
  model.SetOpsetImport("bitpress", 1);
  model.SetOpsetImport("", 18);
  model.SetMetadata("plan", "a");
  model.SetMetadata("plan", "b");
  const Model again = Model::Parse(model.Serialize());
  EXPECT_THAT(again.OpsetImports(),
              ElementsAre(testing::Pair("", 18), testing::Pair("bitpress", 1)));
  EXPECT_THAT(again.Metadata(), ElementsAre(testing::Pair("plan", "b")));
}

TEST(Model, AiOnnxIsTheStandardDomain) {
  onnx::ModelProto proto = ProtoFromText(kBranches);
  proto.mutable_opset_import(0)->set_domain("ai.onnx");
  auto& choose = *proto.mutable_graph()->mutable_node(1);
  choose.mutable_attribute(0)->mutable_g()->mutable_node(0)->set_domain("ai.onnx");
  choose.set_domain("ai.onnx");
  const Model model = FromProto(proto);
  EXPECT_EQ(FindNode(model, "choose").domain(), "");
  EXPECT_THAT(model.OpsetImports(), ElementsAre(testing::Pair("", 17)));
}

TEST(Model, FreshNamesAreFree) {
  Model model = FromText(kSmall);
  EXPECT_EQ(model.FreshName("z"), "z");
  EXPECT_EQ(model.FreshName("x"), "x_1");
  model.SetInitializer("x_1", Tensor{DataType::kInt8, {1}, Bytes("a")});
  EXPECT_EQ(model.FreshName("x"), "x_2");
}

// Every typed field of TensorProto gives the bytes that raw_data would hold.
TEST(Model, TypedFieldsBecomeRawBytes) {
  using T = onnx::TensorProto;
  struct Case {
    int type;
    std::vector<int64_t> dims;
    std::vector<int64_t> entries;
    std::string raw;
  };
  const std::vector<Case> cases{
      {T::INT8, {2}, {-1, 5}, std::string("\xff\x05")},
      {T::UINT8, {2}, {255, 5}, std::string("\xff\x05")},
      {T::BOOL, {2}, {1, 0}, std::string("\x01\x00", 2)},
      {T::INT16, {1}, {-2}, std::string("\xfe\xff")},
      {T::UINT16, {1}, {0x1234}, std::string("\x34\x12")},
      {T::FLOAT16, {1}, {0x3c00}, std::string("\x00\x3c", 2)},
      {T::BFLOAT16, {1}, {0xbf80}, std::string("\x80\xbf")},
      {T::INT32, {1}, {-2}, std::string("\xfe\xff\xff\xff")},
      {T::UINT32, {1}, {0xfffffffe}, std::string("\xfe\xff\xff\xff")},
      {T::INT64, {1}, {-2}, std::string("\xfe\xff\xff\xff\xff\xff\xff\xff")},
      {T::UINT64, {1}, {1}, std::string("\x01\0\0\0\0\0\0\0", 8)},
      {T::FLOAT, {1}, {1}, std::string("\x00\x00\x80\x3f", 4)},
      {T::DOUBLE, {1}, {1}, std::string("\0\0\0\0\0\0\xf0\x3f", 8)},
      {T::COMPLEX64, {1}, {1, 1}, std::string("\x00\x00\x80\x3f\x00\x00\x80\x3f", 8)},
      {T::FLOAT8E4M3FN, {2}, {0x7e, 0x80}, std::string("\x7e\x80")},
      {T::FLOAT8E8M0, {1}, {127}, std::string("\x7f")},
      {T::INT4, {3}, {0xf1, 0x02}, std::string("\xf1\x02")},
      {T::UINT2, {5}, {0xe4, 0x01}, std::string("\xe4\x01")},
      {T::FLOAT4E2M1, {2}, {0x37}, std::string("\x37")},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(onnx::TensorProto_DataType_Name(c.type));
    onnx::ModelProto proto = ProtoFromText(kSmall);
    proto.set_ir_version(13);
    onnx::TensorProto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("t");
    tensor.set_data_type(c.type);
    for (const int64_t dim : c.dims) tensor.add_dims(dim);
    for (const int64_t entry : c.entries) {
      switch (c.type) {
        case T::FLOAT:
        case T::COMPLEX64:
          tensor.add_float_data(static_cast<float>(entry));
          break;
        case T::DOUBLE:
          tensor.add_double_data(static_cast<double>(entry));
          break;
        case T::INT64:
          tensor.add_int64_data(entry);
          break;
        case T::UINT32:
        case T::UINT64:
          tensor.add_uint64_data(static_cast<uint64_t>(entry));
          break;
        default:
          tensor.add_int32_data(static_cast<int32_t>(entry));
      }
    }
    const Model model = FromProto(proto);
    const InitializerView view = model.Initializer("t");
    EXPECT_EQ(static_cast<int>(view.type), c.type);
    EXPECT_EQ((std::vector<std::byte>(view.bytes.begin(), view.bytes.end())), Bytes(c.raw));
    // One entry too many or too few is an error.
    for (const int count : {-1, 1}) {
      onnx::TensorProto& wrong = *proto.mutable_graph()->mutable_initializer(2);
      wrong.set_dims(0, c.dims[0] + 8 * count < 0 ? 0 : c.dims[0] + 8 * count);
      EXPECT_EQ(ErrorOf([&] { FromProto(proto); }).code(), ErrorCode::kInvalidModel);
      wrong.set_dims(0, c.dims[0]);
    }
  }
}

TEST(Model, StringsStayInTheMessage) {
  onnx::ModelProto proto = ProtoFromText(kSmall);
  onnx::TensorProto& tensor = *proto.mutable_graph()->add_initializer();
  tensor.set_name("words");
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.add_dims(2);
  tensor.add_string_data("a");
  tensor.add_string_data("b");
  const Model model = FromProto(proto);
  EXPECT_EQ(model.Initializer("words").type, DataType::kString);
  EXPECT_TRUE(model.Initializer("words").bytes.empty());
  EXPECT_EQ(ToProto(model).graph().initializer(2).string_data(1), "b");
}

TEST(Model, AnOutputThatIsRemovedStaysAValue) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Abs(y) })");
  model.RemoveOutput("y");
  EXPECT_EQ(model.OutputNames(), std::vector<std::string>{"z"});
  EXPECT_FALSE(model.IsOutput("y"));
  EXPECT_EQ(model.InfoOf("y").type, DataType::kFloat);
  EXPECT_EQ(model.Uses("y").size(), 1U);
  model.Check();
  EXPECT_THROW(model.RemoveOutput("y"), Error);
}

TEST(Descriptions, AreForgottenAndTheModelSaysItsSize) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[2,4] x) => (float[2,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{
  h = Mul(x, w)
  y = Relu(h)
}
)");
  const uint64_t before = MeasureParts(model).all;
  EXPECT_EQ(before, model.Serialize().size());
  model.InferShapes();
  EXPECT_THAT(model.InfoOf("h").shape, testing::SizeIs(2));
  EXPECT_GT(MeasureParts(model).all, before);
  model.DropDescriptions();
  EXPECT_EQ(MeasureParts(model).all, before);
  EXPECT_FALSE(model.InfoOf("h").has_shape);
  EXPECT_THAT(model.InfoOf("x").shape, testing::SizeIs(2));
  EXPECT_THAT(model.InfoOf("y").shape, testing::SizeIs(2));
}

}  // namespace
}  // namespace bitpress::graph
