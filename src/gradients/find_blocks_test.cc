#include "gradients/find_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/test_models.h"

namespace bitpress::gradients {
namespace {

using testing::ElementsAre;

graph::Model ModelOf(const std::string& signature, const std::string& constants,
                     const std::string& nodes) {
  return graph::FromTextWithConstants("<ir_version: 10, opset_import: [\"\" : 21]> g " + signature +
                                      " <" + constants + "> { " + nodes + " }");
}

// Returns the segments as "inputs -> outputs (layers)".
std::vector<std::string> BlocksOf(const graph::Model& model) {
  std::vector<std::string> texts;
  const auto is_layer = [](const graph::Node& node) {
    return node.op_type() == "Conv" || node.op_type() == "Gemm" ||
           (node.op_type() == "MatMul" && node.input(1).starts_with("w"));
  };
  for (const Segment& segment : FindBlocks(model, is_layer)) {
    texts.push_back(fmt::format("{} -> {} ({}){}", fmt::join(segment.inputs, ","),
                                fmt::join(segment.part.outputs, ","), segment.num_layers,
                                segment.reason.empty() ? "" : " " + segment.reason));
  }
  return texts;
}

TEST(FindBlocks, JoinsLayersInARowAndKeepsResidualBlocksWhole) {
  // A stem, an inverted residual without a shortcut, two with one, and a head.
  const graph::Model model = ModelOf(
      "(float[1,3,8,8] x) => (float[1,5] y)",
      "float[4,3,1,1] a, float[4,1,3,3] d, float[4,4,1,1] p, float[5,4] f",
      "s0 = Conv(x, a) s1 = Relu(s0) s2 = Conv<group=4,pads=[1,1,1,1]>(s1, d) s3 = Relu(s2) "
      "s4 = Conv(s3, p) "
      "b0 = Conv(s4, p) b1 = Relu(b0) b2 = Conv<group=4,pads=[1,1,1,1]>(b1, d) b3 = Relu(b2) "
      "b4 = Conv(b3, p) b5 = Add(s4, b4) "
      "c0 = Conv(b5, p) c1 = Relu(c0) c4 = Conv(c1, p) c5 = Add(b5, c4) "
      "h0 = Conv(c5, p) h1 = Relu(h0) h2 = GlobalAveragePool(h1) h3 = Flatten(h2) "
      "y = Gemm<transB=1>(h3, f)");
  EXPECT_THAT(BlocksOf(model),
              ElementsAre("x -> s4 (3)", "s4 -> b5 (3)", "b5 -> h3 (3)", "h3 -> y (1)"));
}

TEST(FindBlocks, CutsADecoderBetweenAttentionAndMlp) {
  const graph::Model model = ModelOf(
      "(float[1,7,8] x, float[1,7] mask) => (float[1,7,8] y)",
      "float[8] n, float[8,8] wq, float[8,8] wk, float[8,8] wv, float[8,8] wo, float[8,16] wu, "
      "float[16,8] wd, int64[1] one",
      "m = Unsqueeze(mask, one) "
      "a = LayerNormalization(x, n) q = MatMul(a, wq) k = MatMul(a, wk) v = MatMul(a, wv) "
      "t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t) sm = Add(s, m) p = Softmax(sm) "
      "o = MatMul(p, v) r = MatMul(o, wo) h = Add(x, r) "
      "b = LayerNormalization(h, n) u = MatMul(b, wu) g = Gelu(u) d = MatMul(g, wd) y = Add(h, d)");
  EXPECT_THAT(BlocksOf(model), ElementsAre("a,m,x -> h (4)", "h -> y (2)"));
}

TEST(FindBlocks, LeavesLayersThatDoNotLearnOutOfBlocks) {
  const graph::Model model =
      ModelOf("(float[1,7,8] x) => (float[1,7,8] y)", "float[8,8] w, float[8,8] k",
              "a = MatMul(x, w) b = Relu(a) c = MatMul(b, k) d = Softmax(c) e = MatMul(d, k) "
              "f = MatMul(e, w) y = Softmax(f)");
  EXPECT_THAT(BlocksOf(model), ElementsAre("x -> b (1)", "b -> e (0)", "e -> y (1)"));
}

TEST(FindBlocks, LongSkipsDoNotHinderCuts) {
  std::string nodes = "s = Conv(x, p) s1 = Relu(s) ";
  std::string last = "s1";
  for (int i = 0; i < 15; ++i) {
    const std::string next = "v" + std::to_string(i);
    nodes += next + " = Conv(" + last + ", p) ";
    last = next;
  }
  nodes += "y = Add(" + last + ", s1)";
  const std::vector<std::string> blocks =
      BlocksOf(ModelOf("(float[1,4,8,8] x) => (float[1,4,8,8] y)", "float[4,4,1,1] p", nodes));
  ASSERT_EQ(blocks.size(), 6);
  EXPECT_EQ(blocks.front(), "x -> s1,v1 (3)");
  EXPECT_EQ(blocks.back(), "v13,s1 -> y (1)");
}

TEST(FindBlocks, SaysWhatBoundsABlock) {
  const graph::Model model =
      ModelOf("(float[1,4,8,8] x) => (float[1,4,8,8] y)", "float[4,4,1,1] p, int64 axis",
              "a = Conv(x, p) b = Relu(a) c = CumSum(b, axis) d = Conv(c, p) e = Conv(d, p) "
              "y = Relu(e)");
  EXPECT_THAT(
      BlocksOf(model),
      ElementsAre("x -> b (1)", "b -> c (0) CumSum (output 'c'): operator CumSum has no gradient",
                  "c -> y (2)"));
}

}  // namespace
}  // namespace bitpress::gradients
