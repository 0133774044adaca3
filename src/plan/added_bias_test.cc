#include "plan/added_bias.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

// The row of the first convolution's bias, as planning makes it and as it is added afterwards.
struct Rows {
  TensorPlan planned;
  TensorPlan added;
};

Rows BiasRowsOf(const std::string& config, const std::vector<std::string>& settings = {}) {
  const graph::Model model = LoadModel("convnet.onnx");
  QuantPlan plan = PlanFor(model, config, settings);
  const auto bias = std::ranges::find_if(plan.tensors, [](const TensorPlan& row) {
    return row.role == Role::kBias && row.uses[0].op_type == "Conv";
  });
  Rows rows;
  rows.planned = *bias;
  plan.tensors.erase(bias);
  AddBiasRow(plan, model, rows.planned.value, rows.planned.uses[0]);
  const auto added = std::ranges::find(plan.tensors, rows.planned.value, &TensorPlan::value);
  rows.added = *added;
  EXPECT_EQ((added - 1)->role, Role::kWeight);
  EXPECT_EQ((added - 1)->uses[0].node, rows.planned.uses[0].node);
  return rows;
}

TEST(AddBiasRow, IsWhatPlanningMakes) {
  for (const char* config : {"INT8", "XINT8", "A16W8", "INT8_DYNAMIC"}) {
    const Rows rows = BiasRowsOf(config);
    EXPECT_EQ(rows.added.format, rows.planned.format) << config;
    EXPECT_EQ(rows.added.integer, rows.planned.integer) << config;
    EXPECT_EQ(rows.added.axis, rows.planned.axis) << config;
  }
  const Rows blocks = BiasRowsOf("MX6", {"biases=bf16"});
  EXPECT_EQ(blocks.added, blocks.planned);
  EXPECT_EQ(blocks.added.format, "bf16");
}

TEST(AddBiasRow, HasTheAxisOfAVectorWhateverTheOtherBiasIs) {
  QuantPlan plan;
  TensorPlan weight;
  weight.value = "w";
  weight.role = Role::kWeight;
  weight.uses = {{"c", "Conv", 1}};
  TensorPlan lstm_bias;
  lstm_bias.value = "b";
  lstm_bias.role = Role::kBias;
  lstm_bias.format = "mx6";
  lstm_bias.axis = 1;
  lstm_bias.uses = {{"l", "LSTM", 3}};
  plan.tensors = {lstm_bias, weight};
  AddBiasRow(plan, LoadModel("convnet.onnx"), "added", {"c", "Conv", 2});
  ASSERT_EQ(plan.tensors.size(), 3u);
  EXPECT_EQ(plan.tensors[2].value, "added");
  EXPECT_EQ(plan.tensors[2].format, "mx6");
  EXPECT_EQ(plan.tensors[2].axis, 0);
}

TEST(AddBiasRow, IsFloatWhereBiasesAre) {
  EXPECT_FALSE(BiasRowsOf("MX6").added.is_quantized());
  EXPECT_FALSE(BiasRowsOf("INT8", {"biases=none"}).added.is_quantized());
}

}  // namespace
}  // namespace bitpress::plan
