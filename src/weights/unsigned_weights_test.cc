// Which weights become uint8: those that lose much, while they do few of the products.
#include "weights/unsigned_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/test_support.h"
#include "weights/integer_weight.h"

namespace bitpress::weights {
namespace {

class UnsignedWeightsTest : public ::testing::Test {
 protected:
  // Weights of one sign, of which any two neighbours saturate.
  void MakeLarge(const std::string& weight) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> large(0.5F, 1.0F);
    const std::span<const int64_t> view = model_.Initializer(weight).dims;
    const std::vector<int64_t> dims(view.begin(), view.end());
    std::vector<float> values(static_cast<size_t>(NumElements(dims)));
    for (float& value : values) value = large(random);
    model_.SetInitializer(weight, DataType::kFloat, dims, std::as_bytes(std::span(values)));
  }

  plan::QuantPlan PlanOf(const std::vector<std::string>& settings = {}) const {
    return plan::PlanFor(model_, "INT8", settings);
  }

  plan::ResolvedPlan Choose(plan::QuantPlan plan) {
    plan::ResolvedPlan resolved;
    for (const plan::TensorPlan& row : plan.tensors) {
      if (row.role != plan::Role::kActivation || !row.integer) continue;
      resolved.scales[plan::ScaleKeyOf(row)] = {1.0F / 255, 0};
    }
    resolved.plan = std::move(plan);
    resolved.channels = channels_;
    ChooseUnsignedWeights(resolved, model_, pool_);
    return resolved;
  }

  static plan::TensorPlan RowOf(const plan::QuantPlan& plan, const std::string& value) {
    return *std::ranges::find(plan.tensors, value, &plan::TensorPlan::value);
  }

  graph::Model model_ = plan::LoadModel("convnet.onnx");
  plan::ChannelCodesTable channels_;
  ThreadPool pool_{2};
};

TEST_F(UnsignedWeightsTest, ASmallLayerThatLosesMuch) {
  MakeLarge("fc_weight");    // 80 of 1136 weights
  MakeLarge("stem_weight");  // 216: more than a tenth
  const plan::ResolvedPlan resolved = Choose(PlanOf());
  const plan::QuantPlan& plan = resolved.plan;
  const std::vector<plan::UnsignedWeight>& chosen = resolved.unsigned_weights;
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].value, "fc_weight");
  EXPECT_GT(chosen[0].saved_db, 2);
  EXPECT_EQ(RowOf(plan, "fc_weight").format, "uint8");
  EXPECT_FALSE(RowOf(plan, "fc_weight").integer->is_pair_safe);
  EXPECT_EQ(RowOf(plan, "stem_weight").format, "int8");
  EXPECT_TRUE(RowOf(plan, "stem_weight").integer->is_pair_safe);
}

TEST_F(UnsignedWeightsTest, CodesAreThoseOfInt8) {
  MakeLarge("fc_weight");
  const plan::ResolvedPlan resolved = Choose(PlanOf());
  const plan::QuantPlan& plan = resolved.plan;
  const std::vector<plan::UnsignedWeight>& chosen = resolved.unsigned_weights;
  ASSERT_EQ(chosen.size(), 1U);
  const auto codes_of = [&](const plan::TensorPlan& row, std::vector<formats::QParams> params) {
    WeightStatistics statistics;
    return IntegerWeight(model_.HoldInitializer("fc_weight"), row, "Gemm", {}, std::move(params))
        .Codes(pool_, statistics);
  };
  const plan::TensorPlan any = RowOf(PlanOf({"integer_kernels=vnni"}), "fc_weight");
  std::vector<int32_t> expected = codes_of(any, {});
  for (int32_t& code : expected) code += 128;
  EXPECT_EQ(codes_of(RowOf(plan, "fc_weight"), resolved.weight_scales.at({"fc_weight", "uint8"})),
            expected);
}

TEST_F(UnsignedWeightsTest, NoneWhereSumsFit) {
  const plan::QuantPlan plan = PlanOf();
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == plan::Role::kActivation) channels_[row.value].largest = {40};
  }
  const plan::ResolvedPlan resolved = Choose(plan);
  EXPECT_TRUE(resolved.unsigned_weights.empty());
  EXPECT_EQ(resolved.plan, plan);
}

TEST_F(UnsignedWeightsTest, NoneUnlessTheConfigurationAllowsIt) {
  MakeLarge("fc_weight");
  for (const char* kernels : {"safe_int8", "vnni", "reduce_range"}) {
    const plan::QuantPlan plan = PlanOf({std::string("integer_kernels=") + kernels});
    EXPECT_TRUE(Choose(plan).unsigned_weights.empty()) << kernels;
  }
}

TEST_F(UnsignedWeightsTest, NoneWhoseErrorsVanishInTheActivations) {
  MakeLarge("fc_weight");
  const plan::QuantPlan plan = PlanOf();
  for (const plan::TensorPlan& row : plan.tensors) {
    const bool is_read = std::ranges::any_of(
        row.uses, [](const plan::TensorUse& use) { return use.op_type == "Gemm"; });
    if (row.role != plan::Role::kActivation || !is_read) continue;
    plan::ChannelCodes& codes = channels_[row.value];
    codes.num_reads = 1;
    codes.mean_squares.assign(8, 1.0);
    codes.means.assign(8, 0.5);
    codes.squared_error = 100;
  }
  EXPECT_TRUE(Choose(plan).unsigned_weights.empty());
}

}  // namespace
}  // namespace bitpress::weights
