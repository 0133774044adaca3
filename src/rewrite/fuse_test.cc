#include "graph/test_models.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

constexpr const char* kNorm =
    "m = ReduceMean<axes = [-1], keepdims = 1>(x) d = Sub(x, m) s = Pow(d, two) "
    "v = ReduceMean<axes = [-1], keepdims = 1>(s) ve = Add(v, epsilon) sd = Sqrt(ve) "
    "n = Div(d, sd) ns = Mul(n, scale) [norm] h = Add(ns, shift) ";
constexpr const char* kGelu =
    "e = Div(h, root) f = Erf(e) g = Add(f, one) k = Mul(h, g) [gelu] y = Mul(k, half)";
constexpr const char* kTanhGelu =
    "c = Pow(h, three) e = Mul(c, cubic) z = Add(h, e) w = Mul(z, factor) f = Tanh(w) "
    "g = Add(f, one) k = Mul(half, h) [gelu] y = Mul(k, g)";

graph::Model WithNodes(const std::string& nodes) {
  graph::Model model = graph::FromText(
      R"(<ir_version: 8, opset_import: ["": 14]> net (float[N,4] x) => (float[N,4] y)
      <float two = {2}, float three = {3}, float epsilon = {0.001}, float root = {1.4142135},
       float one = {1}, float half = {0.5}, float cubic = {0.044715}, float factor = {0.7978846},
       float[4] scale = {1, 2, 3, 4}, float[4] shift = {4, 3, 2, 1}> {)" +
      nodes + "}");
  model.InferShapes();
  return model;
}

graph::PassResult Fuse(graph::Model& model, const std::string& word) {
  PrepareOptions options;
  options.rewrites.passes = {"fuse=" + word};
  RewriteReport report;
  const std::filesystem::path path = "small.onnx";
  PrepareState state{path, options, report};
  EXPECT_TRUE(kFuse.is_wanted(model, state));
  graph::PassResult result = kFuse.run(model, state);
  model.Check();
  return result;
}

std::vector<std::string> Types(const graph::Model& model) {
  std::vector<std::string> types;
  for (const graph::Node& node : model.Nodes()) types.push_back(node.op_type());
  return types;
}

TEST(Fuse, WritesEachAsOneOperator) {
  for (const char* const gelu : {kGelu, kTanhGelu}) {
    graph::Model model = WithNodes(std::string(kNorm) + gelu);
    const graph::PassResult result = Fuse(model, "all");
    EXPECT_EQ(Types(model), (std::vector<std::string>{"LayerNormalization", "Gelu"}));
    EXPECT_EQ(graph::NodeNames(model), (std::vector<std::string>{"norm", "gelu"}));
    const graph::Node norm = graph::FindNode(model, "norm");
    EXPECT_EQ(norm.input(0), "x");
    EXPECT_EQ(norm.input(1), "scale");
    EXPECT_EQ(norm.input(2), "shift");
    EXPECT_EQ(norm.GetFloat("epsilon", 0), 0.001F);
    EXPECT_EQ(graph::FindNode(model, "gelu").GetString("approximate", "none"),
              gelu == kGelu ? "none" : "tanh");
    EXPECT_EQ(model.OpsetImports().at(""), 20);
    EXPECT_TRUE(result.is_modified);
    EXPECT_EQ(result.text, "1 Gelu, 1 LayerNormalization");
    EXPECT_TRUE(result.left_alone.empty());
    EXPECT_FALSE(Fuse(model, "all").is_modified) << "a second run finds nothing";
  }
}

TEST(Fuse, TheWordSaysWhich) {
  graph::Model model = WithNodes(std::string(kNorm) + kGelu);
  EXPECT_EQ(Fuse(model, "layer_norm").text, "1 LayerNormalization");
  EXPECT_EQ(model.OpsetImports().at(""), 17);
  EXPECT_EQ(Types(model).size(), 6U);
}

TEST(Fuse, LeavesWhatComputesSomethingElse) {
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  struct Case {
    std::string nodes;
    const char* why;
  };
  for (const Case& one :
       {Case{replaced(kNorm, "axes = [-1]", "axes = [0]"), "other axes than the last"},
        Case{replaced(kNorm, "Add(v, epsilon)", "Add(v, scale)"), "epsilon is no FLOAT number"},
        Case{replaced(kNorm, "Mul(n, scale)", "Mul(n, half)"), "scale is no FLOAT vector"}}) {
    graph::Model model = WithNodes(one.nodes + "y = Abs(h)");
    const graph::PassResult result = Fuse(model, "all");
    EXPECT_FALSE(result.is_modified);
    ASSERT_EQ(result.left_alone.size(), 1U) << one.nodes;
    EXPECT_THAT(result.left_alone[0].second, testing::HasSubstr(one.why));
    EXPECT_EQ(model.OpsetImports().at(""), 14);
  }
  graph::Model other = WithNodes(std::string(kNorm) + replaced(kGelu, "Mul(h, g)", "Mul(x, g)"));
  EXPECT_EQ(Fuse(other, "gelu").text, "nothing");
}

}  // namespace
}  // namespace bitpress::rewrite
