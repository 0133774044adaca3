// Gradients of each rule against finite differences in double precision, and the float forms
// against the double ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "gradients/block.h"
#include "graph/model.h"
#include "graph/test_models.h"

namespace bitpress::gradients {
namespace {

// A node, the shapes of what it reads, and the other initializers that it needs.
struct RuleCase {
  std::string node;       // y = Op(a, b)
  std::string constants;  // float[2,3] a, ...: those with gradients, which have random values
  std::string settings = "";
  double shift = 0;  // is added to the values: what is not defined for negative ones
};

std::vector<std::string> NamesOf(const std::string& constants) {
  std::vector<std::string> names;
  for (size_t at = 0; at < constants.size();) {
    const size_t space = constants.find("] ", at);
    if (space == std::string::npos) break;
    size_t end = constants.find(',', space);
    if (end == std::string::npos) end = constants.size();
    names.push_back(constants.substr(space + 2, end - space - 2));
    at = end;
  }
  return names;
}

graph::Model ModelOf(const RuleCase& rule) {
  std::string declared = rule.constants;
  if (!rule.settings.empty()) declared += ", " + rule.settings;
  return graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1, \"bitpress\" : 1]> g () "
      "=> (float[N] y) <" +
      declared + "> { " + rule.node + " }");
}

template <typename T>
void SetValues(Block<T>& block, const std::vector<std::string>& names, double shift) {
  uint32_t seed = 1;
  for (const std::string& name : names) {
    std::mt19937 random(seed++);
    std::normal_distribution<double> normal;
    for (T& value : block.Constant(name).values) value = static_cast<T>(normal(random) + shift);
  }
}

// Puts random numbers into the outputs' gradients: the loss is the sum of outputs times these.
template <typename T>
void SetGradients(Block<T>& block) {
  std::mt19937 random(77);
  std::normal_distribution<double> normal;
  block.OutputGradient(0) = block.Output(0);
  for (T& value : block.OutputGradient(0).values) value = static_cast<T>(normal(random));
}

double LossOf(Block<double>& block) {
  block.Forward();
  double loss = 0;
  for (size_t i = 0; i < block.Output(0).size(); ++i) {
    loss += block.Output(0).values[i] * block.OutputGradient(0).values[i];
  }
  return loss;
}

class RulesTest : public testing::TestWithParam<RuleCase> {};

TEST_P(RulesTest, HasTheGradientOfFiniteDifferences) {
  const RuleCase& rule = GetParam();
  const graph::Model model = ModelOf(rule);
  const std::vector<std::string> names = NamesOf(rule.constants);
  ThreadPool pool(2);
  const BlockNodes nodes{model.Nodes(), {"y"}};
  Block<double> exact(model, nodes, names, {}, pool);
  SetValues(exact, names, rule.shift);
  exact.Forward();
  SetGradients(exact);
  exact.Backward();
  Block<float> fast(model, nodes, names, {}, pool);
  SetValues(fast, names, rule.shift);
  fast.Forward();
  SetGradients(fast);
  fast.Backward();
  ASSERT_GT(exact.Output(0).size(), 0);
  ASSERT_EQ(fast.Output(0).dims, exact.Output(0).dims);
  for (size_t i = 0; i < exact.Output(0).size(); ++i) {
    EXPECT_NEAR(fast.Output(0).values[i], exact.Output(0).values[i],
                1e-4 * (1 + std::abs(exact.Output(0).values[i])));
  }
  for (const std::string& name : names) {
    const std::vector<double> gradient = exact.Gradient(name).values;
    double most = 1;
    for (const double value : gradient) most = std::max(most, std::abs(value));
    for (size_t i = 0; i < gradient.size(); ++i) {
      double& value = exact.Constant(name).values[i];
      const double kept = value;
      constexpr double kStep = 1e-5;
      value = kept + kStep;
      const double above = LossOf(exact);
      value = kept - kStep;
      const double below = LossOf(exact);
      value = kept;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-6 * most) << name << ' ' << i;
      EXPECT_NEAR(fast.Gradient(name).values[i], gradient[i], 1e-4 * most) << name << ' ' << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Unary, RulesTest,
    testing::Values(
        RuleCase{"y = Relu(a)", "float[3,5] a"},
        RuleCase{"y = LeakyRelu<alpha=0.3>(a)", "float[9] a"},
        RuleCase{"y = Clip(a, min, max)", "float[2,30] a", "float min = {-0.5}, float max = {0.7}"},
        RuleCase{"y = Elu<alpha=0.7>(a)", "float[30] a"}, RuleCase{"y = Sigmoid(a)", "float[9] a"},
        RuleCase{"y = Tanh(a)", "float[9] a"}, RuleCase{"y = HardSigmoid(a)", "float[30] a"},
        RuleCase{"y = HardSwish(a)", "float[30] a", "", 1}, RuleCase{"y = Gelu(a)", "float[9] a"},
        RuleCase{"y = Gelu<approximate=\"tanh\">(a)", "float[9] a"},
        RuleCase{"y = com.microsoft.QuickGelu(a)", "float[9] a"},
        RuleCase{"y = Erf(a)", "float[9] a"}, RuleCase{"y = Softplus(a)", "float[9] a"},
        RuleCase{"y = Exp(a)", "float[9] a"}, RuleCase{"y = Log(a)", "float[9] a", "", 5},
        RuleCase{"y = Sqrt(a)", "float[9] a", "", 5},
        RuleCase{"y = Reciprocal(a)", "float[9] a", "", 5}, RuleCase{"y = Neg(a)", "float[9] a"},
        RuleCase{"y = Abs(a)", "float[9] a"}));

INSTANTIATE_TEST_SUITE_P(
    Binary, RulesTest,
    testing::Values(RuleCase{"y = Add(a, b)", "float[2,3,4] a, float[3,1] b"},
                    RuleCase{"y = Sub(a, b)", "float[4] a, float[2,3,4] b"},
                    RuleCase{"y = Mul(a, b)", "float[2,1,4] a, float[1,3,1] b"},
                    RuleCase{"y = Mul(a, a)", "float[5] a"},
                    RuleCase{"y = Div(a, b)", "float[2,3] a, float[3] b", "", 5},
                    RuleCase{"y = PRelu(a, b)", "float[2,3,4] a, float[3,1] b"},
                    RuleCase{"y = Pow(a, b)", "float[3,3] a, float[1] b", "", 5},
                    RuleCase{"s = Sigmoid(a) y = Mul(a, s)", "float[7] a"}));

INSTANTIATE_TEST_SUITE_P(
    Products, RulesTest,
    testing::Values(RuleCase{"y = MatMul(a, b)", "float[5,3] a, float[3,4] b"},
                    RuleCase{"y = MatMul(a, b)", "float[2,2,110,3] a, float[3,4] b"},
                    RuleCase{"y = MatMul(a, b)", "float[2,1,5,3] a, float[3,3,4] b"},
                    RuleCase{"y = Gemm(a, b, c)", "float[5,3] a, float[3,4] b, float[4] c"},
                    RuleCase{"y = Gemm<transB=1, beta=0.5>(a, b, c)",
                             "float[5,3] a, float[4,3] b, float[5,1] c"},
                    RuleCase{"y = Gemm<transA=1>(a, b)", "float[3,5] a, float[3,4] b"},
                    RuleCase{"y = Gemm<transA=1, transB=1>(a, b)", "float[3,5] a, float[4,3] b"},
                    RuleCase{"y = bitpress.Rotate_4(a)", "float[2,3,8] a"}));

INSTANTIATE_TEST_SUITE_P(
    Convolutions, RulesTest,
    testing::Values(
        RuleCase{"y = Conv(a, b, c)", "float[2,3,4,5] a, float[4,3,1,1] b, float[4] c"},
        RuleCase{"y = Conv<pads=[1,1,1,1]>(a, b)", "float[2,3,5,4] a, float[4,3,3,3] b"},
        RuleCase{"y = Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2]>(a, b, c)",
                 "float[2,2,6,7] a, float[3,2,3,2] b, float[3] c"},
        RuleCase{"y = Conv<strides=[2,2]>(a, b)", "float[1,3,5,5] a, float[2,3,1,1] b"},
        RuleCase{"y = Conv<group=2, pads=[1,1,1,1]>(a, b)", "float[2,4,3,3] a, float[6,2,3,3] b"},
        RuleCase{"y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(a, b)",
                 "float[1,2,6,5] a, float[2,2,3,3] b"},
        RuleCase{"y = Conv<pads=[1,2]>(a, b)", "float[2,3,8] a, float[4,3,3] b"},
        RuleCase{"y = Conv<group=3, pads=[1,1,1,1]>(a, b, c)",
                 "float[2,3,7,6] a, float[3,1,3,3] b, float[3] c"},
        RuleCase{"y = Conv<group=3, pads=[2,2,2,2], strides=[2,2]>(a, b)",
                 "float[2,3,8,7] a, float[3,1,5,5] b"},
        RuleCase{"y = Conv<group=2, strides=[3,2], dilations=[2,1]>(a, b, c)",
                 "float[2,2,9,8] a, float[4,1,2,3] b, float[4] c"},
        RuleCase{"y = Conv<group=3, pads=[2,0]>(a, b)", "float[2,3,9] a, float[3,1,3] b"},
        // More output positions and channels than one task takes.
        RuleCase{"y = Conv(a, b)", "float[1,2,20,60] a, float[2,2,1,1] b"},
        RuleCase{"y = Conv(a, b)", "float[1,30,2,2] a, float[7,30,1,1] b"},
        // More positions than one sum takes.
        RuleCase{"y = Conv(a, b)", "float[1,1,2,8400] a, float[1,1,1,1] b"}));

INSTANTIATE_TEST_SUITE_P(
    TransposedConvolutions, RulesTest,
    testing::Values(RuleCase{"y = ConvTranspose(a, b, c)",
                             "float[2,3,4,5] a, float[3,4,1,1] b, float[4] c"},
                    RuleCase{"y = ConvTranspose<strides=[2,2]>(a, b, c)",
                             "float[2,3,4,3] a, float[3,2,2,2] b, float[2] c"},
                    RuleCase{"y = ConvTranspose<pads=[1,0,1,2], strides=[2,1], dilations=[1,2], "
                             "output_padding=[1,0]>(a, b)",
                             "float[1,3,4,5] a, float[3,2,3,3] b"},
                    RuleCase{"y = ConvTranspose<group=2, strides=[2,2]>(a, b, c)",
                             "float[2,4,3,3] a, float[4,3,3,3] b, float[6] c"},
                    RuleCase{"y = ConvTranspose<group=3, pads=[1,1,1,1], strides=[2,2]>(a, b)",
                             "float[2,3,4,5] a, float[3,1,4,4] b"},
                    RuleCase{"y = ConvTranspose<strides=[3], pads=[1,1]>(a, b)",
                             "float[2,3,5] a, float[3,4,4] b"}));

INSTANTIATE_TEST_SUITE_P(
    Norms, RulesTest,
    testing::Values(
        RuleCase{"y = Softmax(a)", "float[2,3,5] a"},
        RuleCase{"y = Softmax<axis=1>(a)", "float[2,3,5] a"},
        RuleCase{"y = LayerNormalization(a, b, c)", "float[4,6] a, float[6] b, float[6] c"},
        RuleCase{"y = LayerNormalization<axis=1>(a, b)", "float[2,2,3] a, float[2,3] b"},
        RuleCase{"y = SimplifiedLayerNormalization(a, b)", "float[4,6] a, float[6] b"},
        RuleCase{"y = InstanceNormalization(a, b, c)", "float[2,3,4,2] a, float[3] b, float[3] c"},
        RuleCase{"y = InstanceNormalization<epsilon=0.3>(a, b, c)",
                 "float[1,2,5] a, float[2] b, float[2] c"},
        RuleCase{"y = ReduceMean<keepdims=0>(a, axes)", "float[2,3,4] a", "int64[1] axes = {1}"},
        RuleCase{"y = ReduceSum(a, axes)", "float[2,3,4] a", "int64[2] axes = {0, -1}"}));

INSTANTIATE_TEST_SUITE_P(
    Attention, RulesTest,
    testing::Values(
        RuleCase{"y = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>"
                 "(q, k, v, , , n, t, cos, sin)",
                 "float[2,3,16] q, float[2,3,8] k, float[2,3,8] v",
                 "int32[2] n = {2, 2}, int32 t = {3}, float[3,2] cos = {1.0, 1.0, 0.5, 0.9, -0.4, "
                 "0.6}, float[3,2] sin = {0.0, 0.0, 0.8, 0.1, 0.9, 0.7}"},
        // In pairs side by side, keys and values behind the queries.
        RuleCase{"y = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1, do_rotary=1, "
                 "rotary_interleaved=1, scale=0.7>(q, , , , , n, t, cos, sin)",
                 "float[1,3,24] q",
                 "int32[1] n = {2}, int32 t = {3}, float[3,2] cos = {1.0, 1.0, 0.5, 0.9, -0.4, "
                 "0.6}, float[3,2] sin = {0.0, 0.0, 0.8, 0.1, 0.9, 0.7}"},
        // Behind a cache, and with a window.
        RuleCase{"y, pk, pv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2, "
                 "local_window_size=2>(q, k, v, ck, cv, n, t)",
                 "float[1,2,6] q, float[1,2,6] k, float[1,2,6] v",
                 "float[1,2,1,3] ck = {0.5, 1.0, -1.0, 0.2, 0.4, 0.1}, float[1,2,1,3] cv = {0.1, "
                 "-0.3, 0.6, 0.7, 1.0, 0.2}, int32[1] n = {2}, int32 t = {3}"}));

INSTANTIATE_TEST_SUITE_P(
    Pooling, RulesTest,
    testing::Values(RuleCase{"y = GlobalAveragePool(a)", "float[2,3,4,5] a"},
                    RuleCase{
                        "y = AveragePool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,1]>(a)",
                        "float[2,2,5,6] a"},
                    RuleCase{"y = AveragePool<kernel_shape=[2,2], pads=[1,1,1,1], "
                             "count_include_pad=1>(a)",
                             "float[1,2,4,4] a"},
                    RuleCase{"y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(a)",
                             "float[2,2,6,6] a"},
                    RuleCase{"y = MaxPool<kernel_shape=[2]>(a)", "float[2,2,6] a"}));

INSTANTIATE_TEST_SUITE_P(
    Movement, RulesTest,
    testing::Values(
        RuleCase{"y = Reshape(a, s)", "float[2,3,4] a", "int64[3] s = {0, -1, 2}"},
        RuleCase{"y = Flatten(a)", "float[2,3,4] a"},
        RuleCase{"y = Unsqueeze(a, s)", "float[2,3] a", "int64[1] s = {1}"},
        RuleCase{"y = Squeeze(a, s)", "float[2,1,3] a", "int64[1] s = {1}"},
        RuleCase{"y = Transpose<perm=[2,0,1]>(a)", "float[2,3,4] a"},
        RuleCase{"y = Transpose(a)", "float[2,3] a"},
        RuleCase{"y = Concat<axis=1>(a, b, a)", "float[2,3,2] a, float[2,1,2] b"},
        RuleCase{"y = Slice(a, b, e, x, s)", "float[4,7] a",
                 "int64[2] b = {1, -1}, int64[2] e = {3, -100}, int64[2] x = {0, 1}, "
                 "int64[2] s = {1, -2}"},
        RuleCase{"p, q = Split<axis=1, num_outputs=2>(a) r = Exp(p) s = Mul(r, q) y = Mul(s, r)",
                 "float[2,6] a"},
        RuleCase{"y = Gather<axis=1>(a, i)", "float[2,3,4] a", "int64[2,2] i = {2, 0, -1, 2}"},
        RuleCase{"y = Gather<axis=-1>(a, i)", "float[2,5] a", "int64[1] i = {-2}"},
        RuleCase{"y = Gather<axis=1>(a, i)", "float[2,3,4] a", "int64 i = {1}"},
        RuleCase{"y = Pad(a, p)", "float[2,3] a", "int64[4] p = {1, 0, 0, 2}"},
        RuleCase{"y = Resize<mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
                 "nearest_mode=\"floor\">(a, , s)",
                 "float[1,2,3,3] a", "float[4] s = {1.0, 1.0, 2.0, 3.0}"}));

// Nodes of several kinds in a row, and a value that two of them read.
TEST(Block, AddsTheGradientsOfAllReadersOfAValue) {
  const graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2,3] x) => (float[2,3] y) "
      "<float[3,3] w> { h = MatMul(x, w) r = Relu(h) y = Add(h, r) }");
  ThreadPool pool(1);
  const std::vector<std::string> learned{"w"};
  Block<double> block(model, {model.Nodes(), {"y"}}, learned, {}, pool);
  ASSERT_THAT(block.inputs(), testing::ElementsAre("x"));
  block.Input(0) = {{2, 3}, {1, 2, 3, 4, 5, 6}};
  std::ranges::fill(block.Constant("w").values, 0.5);
  block.Forward();
  EXPECT_EQ(block.Output(0).values[0], 6);
  block.OutputGradient(0) = {{2, 3}, {1, 0, 0, 0, 0, 0}};
  block.Backward();
  EXPECT_THAT(block.Gradient("w").values, testing::ElementsAre(2, 0, 0, 4, 0, 0, 6, 0, 0));
}

TEST(Block, SaysWhichOperatorHasNoRule) {
  const graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2,3] x) => (float[2,3] y) "
      "<int32[1] i> { y = CumSum(x, i) }");
  EXPECT_EQ(WhyNoRule(model, model.Nodes()[0]), "operator CumSum has no gradient");
  const graph::Model turned = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21, \"bitpress\" : 1]> g (float[2,3] x) => "
      "(float[2,3] "
      "y) { y = bitpress.Rotate_3(x) }");
  EXPECT_EQ(WhyNoRule(turned, turned.Nodes()[0]), "operator Rotate_3 has no gradient");
}

TEST(Block, GivesTheSameBytesForAnyNumberOfThreads) {
  const graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[8,6,13,13] x) => (float[N] y) "
      "<float[12,6,1,1] a, float[12,1,3,3] b, float[5,12,3,3] c> { p = Conv(x, a) "
      "q = Conv<group=12, pads=[1,1,1,1]>(p, b) r = Relu(q) y = Conv<strides=[2,2]>(r, c) }");
  const std::vector<std::string> learned{"a", "b", "c"};
  std::vector<std::vector<float>> results;
  for (const size_t threads : {size_t{1}, size_t{3}}) {
    ThreadPool pool(threads);
    Block<float> block(model, {model.Nodes(), {"y"}}, learned, {}, pool);
    SetValues(block, learned, 0);
    block.Input(0).Reshape(std::vector<int64_t>{8, 6, 13, 13});
    block.Input(0).values = RandomNormal(block.Input(0).size(), 5);
    block.Forward();
    SetGradients(block);
    block.Backward();
    std::vector<float>& all = results.emplace_back(block.Output(0).values);
    for (const std::string& name : learned) {
      const std::vector<float>& gradient = block.Gradient(name).values;
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace bitpress::gradients
