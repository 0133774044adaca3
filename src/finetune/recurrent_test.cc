#include "finetune/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "finetune/test_layers.h"
#include "graph/test_models.h"
#include "plan/test_support.h"
#include "runtime/session.h"

namespace bitpress::finetune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSteps = 4, kBatch = 2, kFeatures = 3, kHidden = 2, kDirections = 2;

// Returns a model x [steps, batch, inputs] -> y [steps, directions, batch, hidden] with random
// weights.
graph::Model MakeModel(const std::string& op, int64_t num_gates) {
  graph::Model model = graph::FromText(fmt::format(
      R"(<ir_version: 8, opset_import: ["" : 17]>
      net (float[4, 2, 3] x, float[2, {0}, 3] w, float[2, {0}, 2] r, float[2, {1}] b) => (y)
      {{ y = {2}<hidden_size = 2, direction = "bidirectional">(x, w, r, b) }})",
      num_gates * kHidden, 2 * num_gates * kHidden, op));
  uint32_t seed = 1;
  for (const char* const name : {"w", "r", "b"}) {
    std::vector<int64_t> dims;
    for (const graph::Dimension& dim : model.InfoOf(name).shape) dims.push_back(dim.value);
    const auto values = RandomNormal(static_cast<size_t>(NumElements(dims)), ++seed);
    const auto owner = std::make_shared<const std::vector<float>>(values);
    model.InputToInitializer(name,
                             {DataType::kFloat, dims, std::as_bytes(std::span(*owner)), owner});
  }
  return model;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The products, combined as ONNX defines an LSTM, give the outputs of the node.
TEST(Recurrent, ProductsMakeTheGates) {
  graph::Model model = MakeModel("LSTM", 4);
  const plan::QuantPlan plan = plan::PlanFor(model, "MXINT8");
  const std::vector<LinearLayer> layers = FindLayers(model, plan).found;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].recurrent, RecurrentWeight::kInputs);
  EXPECT_EQ(layers[1].recurrent, RecurrentWeight::kStates);
  AddProducts(model, layers);
  for (const std::string& value :
       {layers[0].readings[0].output, layers[1].readings[0].output, layers[1].readings[0].states}) {
    model.AddOutput(value);
  }
  model.InferShapes();
  model.Check();
  runtime::Session session = runtime::Session::FromModel(model);
  const std::vector<float> x = RandomNormal(kSteps * kBatch * kFeatures, 9);
  const std::vector<Tensor> outputs =
      session.Run({MakeTensor<float>(DataType::kFloat, {kSteps, kBatch, kFeatures}, x)});
  const auto y = outputs[0].values<float>();
  const auto of_inputs = outputs[1].values<float>();  // [steps, batch, directions * gates]
  const auto of_states = outputs[2].values<float>();
  const auto states = outputs[3].values<float>();  // [steps, batch, directions * hidden]
  EXPECT_THAT(outputs[2].dims, ElementsAre(kSteps, kBatch, 16));
  const std::vector<float> biases[] = {BiasOf(model, layers[0]), BiasOf(model, layers[1])};
  constexpr int64_t kGates = 4 * kHidden;
  for (int64_t direction = 0; direction < kDirections; ++direction) {
    const int64_t step = direction == 0 ? 1 : -1;
    for (int64_t batch = 0; batch < kBatch; ++batch) {
      std::vector<double> cell(kHidden);
      for (int64_t t = direction == 0 ? 0 : kSteps - 1; t >= 0 && t < kSteps; t += step) {
        const auto gate = [&](int64_t index) {
          const auto row = static_cast<size_t>(direction * kGates + index);
          const auto at = [&](int64_t time) {
            return static_cast<size_t>((time * kBatch + batch) * kDirections * kGates) + row;
          };
          const int64_t before = t - step;
          const bool is_first = before < 0 || before >= kSteps;
          return double{of_inputs[at(t)]} + (is_first ? 0.0 : double{of_states[at(before)]}) +
                 double{biases[0][row]} + double{biases[1][row]};
        };
        for (int64_t i = 0; i < kHidden; ++i) {  // gates in the order input, output, forget, cell
          double& c = cell[static_cast<size_t>(i)];
          c = Sigmoid(gate(2 * kHidden + i)) * c +
              Sigmoid(gate(i)) * std::tanh(gate(3 * kHidden + i));
          const double wanted = Sigmoid(gate(kHidden + i)) * std::tanh(c);
          const auto at = ((t * kDirections + direction) * kBatch + batch) * kHidden + i;
          EXPECT_NEAR(y[static_cast<size_t>(at)], wanted, 1e-5);
          const auto in_states = ((t * kBatch + batch) * kDirections + direction) * kHidden + i;
          EXPECT_EQ(states[static_cast<size_t>(in_states)], y[static_cast<size_t>(at)]);
        }
      }
    }
  }
}

TEST(Recurrent, BiasesOfBothWeightsLieInOneConstant) {
  graph::Model model = MakeModel("RNN", 1);
  const plan::QuantPlan plan = plan::PlanFor(model, "MXINT8");
  const std::vector<LinearLayer> layers = FindLayers(model, plan).found;
  ASSERT_EQ(layers.size(), 2u);
  SetBias(model, layers[0], std::vector<float>{1, 2, 3, 4});
  SetBias(model, layers[1], std::vector<float>{5, 6, 7, 8});
  EXPECT_THAT(model.Initializer("b").values<float>(), ElementsAre(1, 2, 5, 6, 3, 4, 7, 8));
  EXPECT_THAT(BiasOf(model, layers[1]), ElementsAre(5, 6, 7, 8));
}

TEST(Recurrent, StatesBehindAGateAreLeftOut) {
  const graph::Model model = MakeModel("GRU", 3);
  const plan::QuantPlan plan = plan::PlanFor(model, "MXINT8");
  const Layers layers = FindLayers(model, plan);
  ASSERT_EQ(layers.found.size(), 1u);
  EXPECT_EQ(layers.found[0].weight, "w");
  ASSERT_EQ(layers.left_out.size(), 1u);
  EXPECT_THAT(layers.left_out[0].second, HasSubstr("linear_before_reset"));
}

}  // namespace
}  // namespace bitpress::finetune
