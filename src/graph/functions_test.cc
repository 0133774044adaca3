#include "graph/model.h"
#include "graph/test_models.h"
#include "onnx/checker.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kFunctionModel = R"(
  <ir_version: 7, opset_import: ["" : 13, "bitpress" : 1]>
  agraph (float[N, 4] x) => (float[N, 4] y) {
    y = bitpress.Scale <factors = [2, 3]> (x)
  })";

FunctionSpec Scale() {
  FunctionSpec spec{"bitpress", "Scale", "Multiplies by the sum of factors.", {"x"}, {"y"}, {}, {}};
  spec.attributes = {"factors"};
  using Type = AttributeReference::Type;
  spec.nodes = {
      {"",
       "Constant",
       "",
       {},
       {"factors"},
       {{"value_ints", AttributeReference{"factors", Type::kInts}}}},
      {"", "Cast", "", {"factors"}, {"as_float"}, {{"to", int64_t{1}}}},
      {"", "ReduceSum", "", {"as_float"}, {"sum"}, {{"keepdims", int64_t{0}}}},
      {"",
       "Constant",
       "",
       {},
       {"half"},
       {{"value", Tensor{DataType::kFloat, {}, BytesOf<float>({0.5F})}}}},
      {"", "Mul", "", {"x", "sum"}, {"scaled"}, {}},
      {"", "Mul", "", {"scaled", "half"}, {"y"}, {}},
  };
  return spec;
}

TEST(Functions, AddReplaceRemove) {
  Model model = FromText(kFunctionModel);
  EXPECT_FALSE(model.HasFunction("bitpress", "Scale"));
  model.SetFunction(Scale());
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_TRUE(model.HasFunction("bitpress", "Scale"));
  EXPECT_THAT(model.Functions(), ElementsAre(Pair("bitpress", "Scale")));
  const std::string once = model.Serialize();
  model.SetFunction(Scale());
  EXPECT_EQ(model.Serialize(), once);
  const onnx::ModelProto proto = ToProto(model);
  EXPECT_NO_THROW(onnx::checker::check_model(proto, /*full_check=*/true));
  EXPECT_EQ(proto.functions(0).node(0).attribute(0).ref_attr_name(), "factors");
  EXPECT_EQ(proto.functions(0).opset_import(0).version(), 13);
  EXPECT_TRUE(model.RemoveFunction("bitpress", "Scale"));
  EXPECT_FALSE(model.RemoveFunction("bitpress", "Scale"));
  EXPECT_TRUE(model.Functions().empty());
}

TEST(Functions, NeedTheirOperatorSets) {
  Model model = FromText(kFunctionModel);
  FunctionSpec spec = Scale();
  spec.nodes.push_back({"", "Gelu", "com.microsoft", {"y"}, {"z"}, {}});
  EXPECT_THAT(ErrorOf([&] { model.SetFunction(spec); }).what(), HasSubstr("'com.microsoft'"));
}

TEST(SetInfo, DescribesAValue) {
  Model model = FromText(kFunctionModel);
  model.InsertNode({"u", "Unknown", "bitpress", {"x"}, {"u"}, {}}, std::nullopt);
  model.SetInfo("u", {DataType::kFloat16, true, {{-1, "N"}, {7, ""}}});
  const ValueInfo info = model.InfoOf("u");
  EXPECT_EQ(info.type, DataType::kFloat16);
  ASSERT_EQ(info.shape.size(), 2);
  EXPECT_EQ(info.shape[0].symbol, "N");
  EXPECT_EQ(info.shape[1].value, 7);
}

// Shape inference of such a model would not come back.
TEST(Functions, CallsThatMultiplyBeyondBoundsAreRefused) {
  const auto text = [](int depth) {
    std::string model = R"(<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
      agraph (float[N] x) => (float[N] y) { y = local.F0(x) })";
    for (int i = 0; i < depth; ++i) {
      model += fmt::format(R"(<domain: "local", opset_import: ["" : 17, "local" : 1]>
        F{0} (a) => (c) {{ b = local.F{1}(a) c = local.F{1}(b) }} )",
                           i, i + 1);
    }
    return model + fmt::format(R"(<domain: "local", opset_import: ["" : 17]>
        F{} (a) => (b) {{ b = Relu(a) }})",
                               depth);
  };
  EXPECT_NO_THROW(FromText(text(10)).InferShapes());
  const Error error = ErrorOf([&] { FromText(text(60)); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
  EXPECT_THAT(error.what(), HasSubstr("call each other so often"));
}

}  // namespace
}  // namespace bitpress::graph
