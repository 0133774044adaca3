#include "search/network_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/test_support.h"
#include "graph/test_models.h"

namespace bitpress::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  Tensor tensor{DataType::kFloat, std::move(dims), {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

std::vector<float> ValuesOf(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

std::vector<graph::Node> NodesOf(const graph::Model& model, const std::string& op_type) {
  std::vector<graph::Node> nodes;
  for (const graph::Node& node : model.Nodes()) {
    if (node.op_type() == op_type) nodes.push_back(node);
  }
  return nodes;
}

// Three products in a row. The second's result is also an output, and two nodes read it.
class ProbeOfThree : public testing::Test {
 protected:
  ProbeOfThree()
      : model_(graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
          g (float[N,2] x) => (float[N,2] y, float[N,2] q)
          <float[N,2] p, float[N,2] r, float[2,2] a = {1,0,0,1}, float[2,2] b = {2,0,0,2}, float[2,2] c = {3,0,0,3}>
          { p = MatMul(x, a)  q = MatMul(p, b)  r = MatMul(q, c)  y = Add(r, q) })")),
        probe_(model_, NodesOf(model_, "MatMul"), 1) {}

  graph::Model model_;
  NetworkProbe probe_;
  const std::vector<Tensor> inputs_{Floats({1, 2}, {1, 10})};
};

TEST_F(ProbeOfThree, RunsTheFloatModel) {
  const std::vector<Tensor> outputs = probe_.Run(inputs_);
  EXPECT_THAT(probe_.OutputNames(), ElementsAre("y", "q"));
  EXPECT_THAT(ValuesOf(outputs[0]), ElementsAre(8, 80));
  EXPECT_THAT(ValuesOf(outputs[1]), ElementsAre(2, 20));
}

TEST_F(ProbeOfThree, EveryReaderGetsWhatReplacesAnOutput) {
  const auto one_less = [](const LayerValues& known) {
    std::vector<float> values = ValuesOf(known.outputs[0]);
    for (float& value : values) value -= 1;
    return std::vector{Floats({1, 2}, values)};
  };
  const std::vector<std::vector<float>> inputs{{1, 10}, {1, 10}, {2, 20}};
  const std::vector<std::vector<float>> wanted{{0, 72}, {4, 76}, {7, 79}};
  for (size_t layer = 0; layer < 3; ++layer) {
    ASSERT_EQ(probe_.WhyNot(layer), "");
    LayerValues values;
    const std::vector<Tensor> outputs = probe_.RunWith(inputs_, layer, one_less, &values);
    EXPECT_EQ(ValuesOf(outputs[0]), wanted[layer]) << layer;
    EXPECT_EQ(ValuesOf(values.inputs[0]), inputs[layer]) << layer;
  }
  const std::vector<Tensor> outputs = probe_.RunWith(inputs_, 1, one_less, nullptr);
  EXPECT_THAT(ValuesOf(outputs[1]), ElementsAre(1, 19));
  // Nothing is replaced any more.
  EXPECT_THAT(ValuesOf(probe_.Run(inputs_)[0]), ElementsAre(8, 80));
}

TEST_F(ProbeOfThree, FailuresEndTheReplacing) {
  const auto of_other_shape = [](const LayerValues&) { return std::vector{Floats({1, 1}, {0})}; };
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime,
                          [&] { probe_.RunWith(inputs_, 0, of_other_shape, nullptr); }),
              HasSubstr("'p' is FLOAT [1, 2], and FLOAT [1, 1] when"));
  EXPECT_THAT(ValuesOf(probe_.Run(inputs_)[0]), ElementsAre(8, 80));
}

TEST(NetworkProbe, ReplacesAllOutputsOfARecurrentLayer) {
  const graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8,
    opset_import: ["" : 17]>
    g (float[3,1,4] x, int32[1] lengths) => (float[3,1,1,2] all, float[1,1,2] last)
    <float[1,8,4] w, float[1,8,2] r, float[1,16] b>
    { all, last = LSTM<hidden_size = 2>(x, w, r, b, lengths) })");
  NetworkProbe probe(model, NodesOf(model, "LSTM"), 1);
  ASSERT_EQ(probe.WhyNot(0), "");
  Tensor lengths{DataType::kInt32, {1}, std::vector<std::byte>(4)};
  lengths.values<int32_t>()[0] = 3;
  const auto ones = [](const LayerValues&) {
    return std::vector{Floats({3, 1, 1, 2}, {1, 2, 3, 4, 5, 6}), Floats({1, 1, 2}, {7, 8})};
  };
  LayerValues values;
  const std::vector<Tensor> outputs =
      probe.RunWith({Floats({3, 1, 4}, std::vector<float>(12, 1)), lengths}, 0, ones, &values);
  EXPECT_THAT(ValuesOf(outputs[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ValuesOf(outputs[1]), ElementsAre(7, 8));
  EXPECT_EQ(values.inputs[1].values<int32_t>()[0], 3);
  EXPECT_EQ(values.outputs[1].dims, (std::vector<int64_t>{1, 1, 2}));
}

TEST(NetworkProbe, HalfFloatsAreThoseOfTheModel) {
  // The processor has no half-precision Conv, so that ONNX Runtime computes in float.
  const graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8,
    opset_import: ["" : 17]>
    g (float16[1,2,3,3] x) => (float16[1,2,3,3] z)
    <float16[1,2,3,3] y, float16[1,2,3,3] r, float16[2,2,1,1] w>
    { r = Relu(x)  y = Conv(r, w)  z = Relu(y) })");
  NetworkProbe probe(model, NodesOf(model, "Conv"), 1);
  ASSERT_EQ(probe.WhyNot(0), "");
  constexpr uint16_t kOne = 0x3C00;
  Tensor ones{DataType::kFloat16, {1, 2, 3, 3}, std::vector<std::byte>(36)};
  std::ranges::fill(ones.values<uint16_t>(), kOne);
  LayerValues values;
  const auto replace = [&](const LayerValues& known) {
    EXPECT_EQ(known.inputs[0].type, DataType::kFloat16);
    return std::vector{ones};
  };
  const std::vector<Tensor> outputs = probe.RunWith({ones}, 0, replace, &values);
  EXPECT_EQ(outputs[0].bytes, ones.bytes);
  EXPECT_EQ(values.inputs[0].bytes, ones.bytes);
  EXPECT_EQ(values.outputs[0].type, DataType::kFloat16);
}

TEST(NetworkProbe, SaysWhichValuesItCannotReplace) {
  const graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (double[N,2] x) => (double[N,2] z)
      <double[N,2] y, double[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}>
      { y = Relu(x)  z = MatMul(y, a)  c = MatMul(b, b)  d = MatMul(x, a) })");
  NetworkProbe probe(model, NodesOf(model, "MatMul"), 1);
  EXPECT_THAT(probe.WhyNot(0), HasSubstr("'y' is computed and of type DOUBLE"));
  EXPECT_EQ(probe.WhyNot(1), "all its inputs are constants");
  EXPECT_EQ(probe.WhyNot(2), "nothing reads its result");
}

}  // namespace
}  // namespace bitpress::search
