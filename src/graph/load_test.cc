// Tests of refused models and their errors: damaged files, wrong sizes, wrong graphs.
#include <gtest/gtest.h>
#include <fstream>
#include <functional>

#include "graph/own_domain.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLoadedModel = R"(<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
agraph (float[N,4] x, bool c) => (float[N,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, int64[1] axes = {0}>
{
  [scale] h = Mul(x, w)
  [up] u = Unsqueeze(h, axes)
  [down] d = Squeeze(u, axes)
  [call] f = local.Twice(d)
  [choose] y = If (c) <
    then_branch = g1 () => (float[N,4] t) { t = Relu(f) },
    else_branch = g2 () => (float[N,4] e) { k = Constant<value = float[1] {2.0}>() e = Mul(f, k) }
  >
}
<domain: "local", opset_import: ["" : 17]>
Twice (a) => (b) { b = Add(a, a) }
)";

TEST(Load, MissingFilesAndFoldersAreIoErrors) {
  const TemporaryFolder folder;
  const Error missing = ErrorOf([&] { Model::Load(folder / "no.onnx"); });
  EXPECT_EQ(missing.code(), ErrorCode::kIo);
  EXPECT_THAT(missing.what(), AllOf(HasSubstr("no.onnx"), HasSubstr("No such file")));
  EXPECT_THAT(ErrorOf([&] { Model::Load(folder.path()); }).what(), HasSubstr("it is a folder"));
}

TEST(Load, OtherFilesAreInvalidModels) {
  const TemporaryFolder folder;
  WriteFile(folder / "text.onnx", "this is no model");
  WriteFile(folder / "empty.onnx", "");
  const Error text = ErrorOf([&] { Model::Load(folder / "text.onnx"); });
  EXPECT_EQ(text.code(), ErrorCode::kInvalidModel);
  EXPECT_THAT(text.what(), AllOf(HasSubstr("text.onnx"), HasSubstr("not an ONNX model")));
  EXPECT_THAT(ErrorOf([&] { Model::Load(folder / "empty.onnx"); }).what(),
              HasSubstr("the model has no graph"));
}

TEST(Load, FilesBeyondTheMessageLimitAreRefusedUnread) {
  const TemporaryFolder folder;
  std::ofstream(folder / "huge.onnx", std::ios::binary).seekp(int64_t{3} << 30).put('x');  // sparse
  const Error error = ErrorOf([&] { Model::Load(folder / "huge.onnx"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("3.22 GB"), HasSubstr("external data")));
}

// A change to the model, and the words that the error must have.
struct Damage {
  const char* name;
  std::function<void(onnx::ModelProto&)> apply;
  ErrorCode code;
  const char* message;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

onnx::TensorProto& Weight(onnx::ModelProto& proto) {
  return *proto.mutable_graph()->mutable_initializer(0);
}
onnx::NodeProto& NodeAt(onnx::ModelProto& proto, int i) {
  return *proto.mutable_graph()->mutable_node(i);
}

std::vector<Damage> Damages() {
  using P = onnx::ModelProto;
  const auto invalid = ErrorCode::kInvalidModel;
  return {
      {"NoGraph", [](P& p) { p.clear_graph(); }, invalid, "no graph"},
      {"NoNodes", [](P& p) { p.mutable_graph()->clear_node(); }, invalid, "no nodes"},
      {"NoOpset", [](P& p) { p.clear_opset_import(); }, invalid, "no opset imports"},
      {"NoIrVersion", [](P& p) { p.clear_ir_version(); }, invalid, "ir_version"},
      {"FutureIrVersion", [](P& p) { p.set_ir_version(99); }, invalid, "99"},
      {"UnknownOperator", [](P& p) { NodeAt(p, 0).set_op_type("Mull"); }, invalid, "Mull"},
      {"UnknownDomain", [](P& p) { NodeAt(p, 0).set_domain("where"); }, invalid, "'where'"},
      {"TooFewInputs", [](P& p) { NodeAt(p, 0).mutable_input()->RemoveLast(); }, invalid, "input"},
      {"UnknownValue", [](P& p) { NodeAt(p, 1).set_input(0, "nix"); }, invalid, "nix"},
      {"UnknownOutput", [](P& p) { p.mutable_graph()->mutable_output(0)->set_name("nix"); },
       invalid, "nix"},
      {"TwoProducers", [](P& p) { NodeAt(p, 2).set_output(0, "h"); }, invalid,
       "Squeeze 'down' produces 'h', which Mul 'scale' produces already"},
      {"OutputOverInput", [](P& p) { NodeAt(p, 0).set_output(0, "x"); }, invalid,
       "Mul 'scale' produces 'x', which is an input"},
      {"TwoInitializers", [](P& p) { p.mutable_graph()->mutable_initializer(1)->set_name("w"); },
       invalid, "two initializers are named 'w'"},
      {"NamelessInitializer", [](P& p) { Weight(p).set_name(""); }, invalid, "name"},
      {"Cycle", [](P& p) { NodeAt(p, 1).set_input(0, "f"); }, invalid,
       "3 nodes read each other's outputs in a cycle: Unsqueeze 'up', Twice 'call', Squeeze "
       "'down'"},
      {"CycleThroughASubgraph", [](P& p) { NodeAt(p, 0).set_input(1, "y"); }, invalid,
       "If 'choose'"},
      {"ReadsItself", [](P& p) { NodeAt(p, 0).set_input(0, "h"); }, invalid,
       "Mul 'scale' reads its own output"},
      {"FewerEntries", [](P& p) { Weight(p).add_dims(2); }, invalid,
       "tensor 'w': float_data has 4 entries, but FLOAT [4, 2] takes 8"},
      {"MoreEntries", [](P& p) { Weight(p).set_dims(0, 3); }, invalid,
       "tensor 'w': float_data has 4 entries, but FLOAT [3] takes 3"},
      {"NegativeDim", [](P& p) { Weight(p).set_dims(0, -4); }, invalid, "tensor 'w': shape [-4]"},
      {"OverflowingDims",
       [](P& p) {
         Weight(p).set_dims(0, int64_t{1} << 40);
         Weight(p).add_dims(int64_t{1} << 40);
       },
       invalid, "tensor 'w': shape ["},
      {"OverflowingBytes", [](P& p) { Weight(p).set_dims(0, int64_t{1} << 62); }, invalid,
       "tensor 'w'"},
      {"WrongRawSize",
       [](P& p) {
         Weight(p).clear_float_data();
         Weight(p).set_raw_data("12345678901");
       },
       invalid, "tensor 'w': raw_data has 11 bytes, but FLOAT [4] takes 16"},
      {"NoElementType", [](P& p) { Weight(p).set_data_type(0); }, invalid,
       "tensor 'w' has element type 0"},
      {"UnknownElementType", [](P& p) { Weight(p).set_data_type(77); }, invalid,
       "tensor 'w' has element type 77"},
      {"Float6", [](P& p) { Weight(p).set_data_type(onnx::TensorProto::FLOAT6E2M3); },
       ErrorCode::kUnsupported, "FLOAT6E2M3"},
      {"Segment", [](P& p) { Weight(p).mutable_segment()->set_begin(0); }, ErrorCode::kUnsupported,
       "segments"},
      {"ConstantInABody",
       [](P& p) {
         auto& body = *NodeAt(p, 4).mutable_attribute(1)->mutable_g();
         body.mutable_node(0)->mutable_attribute(0)->mutable_t()->set_dims(0, 9);
       },
       invalid, "takes 9"},
      {"RecursiveFunction",
       [](P& p) {
         auto& node = *p.mutable_functions(0)->mutable_node(0);
         node.set_domain("local");
         node.set_op_type("Twice");
         auto* import = p.mutable_functions(0)->add_opset_import();
         import->set_domain("local");
         import->set_version(1);
       },
       invalid, "ycle"},
  };
}

class DamagedModel : public testing::TestWithParam<Damage> {};

TEST_P(DamagedModel, IsOneClearError) {
  onnx::ModelProto proto = ProtoFromText(kLoadedModel);
  FromProto(proto);
  GetParam().apply(proto);
  const Error error = ErrorOf([&] { FromProto(proto); });
  EXPECT_EQ(error.code(), GetParam().code);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
}

INSTANTIATE_TEST_SUITE_P(Load, DamagedModel, testing::ValuesIn(Damages()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Load, UnsortedNodesAreSorted) {
  onnx::ModelProto proto = ProtoFromText(kLoadedModel);
  auto& nodes = *proto.mutable_graph()->mutable_node();
  for (int i = 0; i < nodes.size() / 2; ++i) nodes.SwapElements(i, nodes.size() - 1 - i);
  const Model model = FromProto(proto);
  EXPECT_THAT(NodeNames(model), ElementsAre("scale", "up", "down", "call", "choose"));
}

TEST(Load, TruncatedModelsNeverCrash) {
  const std::string bytes = FromText(kLoadedModel).Serialize();
  size_t num_loaded = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    try {
      Model::Parse(std::string_view(bytes).substr(0, length));
      ++num_loaded;
    } catch (const Error& error) {
      EXPECT_THAT(error.code(),
                  AnyOf(ErrorCode::kInvalidModel, ErrorCode::kUnsupported, ErrorCode::kIo));
    }
  }
  EXPECT_LT(num_loaded, 5) << "the graph stands last in the file";
}

TEST(Load, FlippedBitsNeverCrash) {
  const std::string bytes = FromText(kLoadedModel).Serialize();
  size_t num_refused = 0;
  for (size_t position = 0; position < bytes.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[position] = static_cast<char>(damaged[position] ^ (1 << bit));
      try {
        Model model = Model::Parse(damaged);
        // Bytes that are taken for a model behave like one.
        model.InferShapes();
        static_cast<void>(Model::Parse(model.Clone().Serialize()));
      } catch (const Error&) {
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_refused, bytes.size()) << "more than one flip in eight does harm";
}

TEST(Load, DeeplyNestedBodiesAreRefused) {
  onnx::ModelProto proto = ProtoFromText(kLoadedModel);
  onnx::GraphProto inner = NodeAt(proto, 4).attribute(1).g();
  for (int depth = 0; depth < 200; ++depth) {
    onnx::GraphProto outer = NodeAt(proto, 4).attribute(0).g();
    *outer.mutable_node(0)->add_attribute()->mutable_g() = std::move(inner);
    inner = std::move(outer);
  }
  *NodeAt(proto, 4).mutable_attribute(1)->mutable_g() = std::move(inner);
  EXPECT_EQ(ErrorOf([&] { FromProto(proto); }).code(), ErrorCode::kInvalidModel);
}

TEST(Load, OutputsWithoutShapeOrTypeAreAccepted) {
  onnx::ModelProto proto = ProtoFromText(kLoadedModel);
  auto& output = *proto.mutable_graph()->mutable_output(0);
  output.mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_FALSE(FromProto(proto).InfoOf("y").has_shape);
  output.clear_type();
  Model model = FromProto(proto);
  EXPECT_EQ(model.InfoOf("y").type, DataType::kUndefined);
  EXPECT_TRUE(model.IsOutput("y"));
  EXPECT_FALSE(ToProto(model).graph().output(0).has_type()) << "left as it was";
  model.InferShapes();
  EXPECT_EQ(model.InfoOf("y").type, DataType::kFloat);
  EXPECT_TRUE(Model::Parse(model.Serialize()).InfoOf("y").has_shape);

  proto.mutable_graph()->mutable_node(4)->set_domain("local");  // now no one knows the type
  Model unknown = FromProto(proto);
  unknown.InferShapes();
  EXPECT_FALSE(ToProto(unknown).graph().output(0).has_type());
}

TEST(Load, InputsMayLackAShapeButNoType) {
  onnx::ModelProto proto = ProtoFromText(kLoadedModel);
  auto& input = *proto.mutable_graph()->mutable_input(0);
  input.mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(FromProto(proto).InfoOf("x").type, DataType::kFloat);
  input.clear_type();
  EXPECT_EQ(ErrorOf([&] { FromProto(proto); }).code(), ErrorCode::kInvalidModel);
}

TEST(Load, OperatorsOfOtherDomainsAreAccepted) {
  const Model model = FromText(R"(<ir_version: 8,
    opset_import: ["" : 17, "com.microsoft" : 1, "com.amd.quark" : 1, "bitpress" : 1, "own" : 3]>
  g (float[N,8] x) => (float[N,8] y) {
    a = com.microsoft.Gelu (x)
    b = com.amd.quark.MXQuantizeDequantize <element_dtype = "fp8_e4m3", axis = 1, other = 0.5> (a)
    c = bitpress.QuantizeDequantize_mx6 <axis = 1, scale_choice = "ceil"> (b)
    y = own.Anything (c)
  })");
  EXPECT_EQ(model.Nodes().size(), 4);
}

TEST(Load, OperatorsWithoutSchemaOfEarlyReleasesPassInSilence) {
  testing::internal::CaptureStdout();
  const Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 7]>
  g (float[1,3,4,4] x) => (float[1,3,4,4] y) { y = ImageScaler <scale = 0.5> (x) })");
  model.Check();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(model.Nodes()[0].domain(), "");
}

TEST(Load, DevelopmentModels) {
  const std::filesystem::path folder = std::filesystem::path(BITPRESS_SHARED_DIR) / "models";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no models at " << folder;
  const std::vector<std::pair<const char*, size_t>> files{
      {"efficientnet_lite0.onnx", 94},
      {"efficientnet_lite0_unsimplified.onnx", 456},
      {"quark/efficientnet_lite0_bf16.onnx", 418},
      {"quark/efficientnet_lite0_mxfp8e4m3.onnx", 289}};
  for (const auto& [file, num_nodes] : files) {
    SCOPED_TRACE(file);
    Model model = Model::Load(folder / file);
    EXPECT_EQ(model.Nodes().size(), num_nodes);
    model.InferShapes();
    for (const Node& node : model.Nodes()) {
      EXPECT_TRUE(model.InfoOf(node.output(0)).has_shape) << node.Describe();
    }
    EXPECT_EQ(model.InfoOf(model.OutputNames()[0]).shape.back().value, 1000);
  }
}

TEST(RefuseInternalOperators, InTheGraphInBodiesAndInFunctions) {
  const auto refusal = [](const std::string& text) {
    const Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17, "bitpress.observe" : 1,
      "local" : 1]> g (float[2] x, bool c) => (float[2] y) { )" +
                                 text);
    return std::string(ErrorOf([&] { RefuseInternalOperators(model); }).what());
  };
  EXPECT_THAT(refusal("[spy] y = bitpress.observe.ObservePass <id = 9> (x) }"),
              HasSubstr("ObservePass 'spy' has the domain 'bitpress.observe'"));
  EXPECT_THAT(refusal(R"(y = If (c) <
      then_branch = a () => (float[2] t) { [spy] t = bitpress.observe.ObservePass <id = 9> (x) },
      else_branch = b () => (float[2] e) { e = Relu(x) }> })"),
              HasSubstr("ObservePass 'spy'"));
  EXPECT_THAT(refusal(R"(y = local.f(x) }
    <domain: "local", opset_import: ["" : 17, "bitpress.observe" : 1]>
    f (a) => (b) { [spy] b = bitpress.observe.ObservePass <id = 9> (a) })"),
              HasSubstr("ObservePass 'spy'"));
  EXPECT_THAT(refusal(R"(y = bitpress.observe.f(x) }
    <domain: "bitpress.observe", opset_import: ["" : 17]> f (a) => (b) { b = Relu(a) })"),
              HasSubstr("bitpress.observe"));
  EXPECT_NO_THROW(RefuseInternalOperators(FromText(kLoadedModel)));
}

}  // namespace
}  // namespace bitpress::graph
