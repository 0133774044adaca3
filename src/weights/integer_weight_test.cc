#include "weights/integer_weight.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bitpress::weights {
namespace {

graph::HeldInitializer Lend(const std::vector<float>& values, std::vector<int64_t> dims) {
  return {DataType::kFloat, std::move(dims), std::as_bytes(std::span<const float>(values)),
          nullptr};
}

// Returns the scale of an int8 weight, 20000 without a bias, that has this one.
float ScaleWithBias(formats::ScaleKind kind, float bias) {
  plan::TensorPlan row;
  row.value = "w";
  row.role = plan::Role::kWeight;
  row.format = "int8";
  row.integer.emplace().granularity = plan::Granularity::kPerTensor;
  row.integer->scale_kind = kind;
  const std::vector<float> weights = {127 * 20000.0F, 1000};
  const std::vector<float> biases = {bias};
  // Codes of the bias are those of bias / (scale * 10^-6).
  const IntegerWeight weight(Lend(weights, {1, 2}), row, "Gemm", {{Lend(biases, {1}), 1e-6F}});
  ThreadPool pool(1);
  return weight.Params(pool).front().scale;
}

TEST(IntegerWeight, ScalesRaisedForABiasAreOfTheirKind) {
  using formats::ScaleKind;
  EXPECT_EQ(ScaleWithBias(ScaleKind::kInt16, 0), 20000);
  // The code of this bias needs a scale of 30000, and of the next one 60000.
  EXPECT_EQ(ScaleWithBias(ScaleKind::kInt16, 6.4424e7F), 32767) << "and not 40000";
  EXPECT_EQ(ScaleWithBias(ScaleKind::kInt16, 1.2885e8F), 32767) << "there is no larger one";
  EXPECT_EQ(ScaleWithBias(ScaleKind::kPowerOfTwo, 6.4424e7F), 32768);
  EXPECT_EQ(ScaleWithBias(ScaleKind::kPowerOfTwo, 1.2885e8F), 65536);
  EXPECT_NEAR(ScaleWithBias(ScaleKind::kFloat, 6.4424e7F), 30000, 1);
}

TEST(QuantizeBias, ScalesOfProductsAreNormalNumbers) {
  ThreadPool pool(1);
  const std::vector<float> values = {0, 1e-36F, 3};
  const graph::HeldInitializer bias = Lend(values, {3});
  WeightStatistics statistics;
  for (const float far : {1e-30F, 1e30F}) {
    const std::vector<formats::QParams> weight(3, formats::QParams{far, 0});
    const std::vector<Tensor> tensors =
        QuantizeBias(bias, far, weight, /*is_per_tensor=*/false, {}, pool, statistics);
    const std::span<const int32_t> codes = tensors[0].values<int32_t>();
    const std::span<const float> scales = tensors[1].values<float>();
    EXPECT_EQ(codes[0], 0);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isnormal(scales[i])) << scales[i];
      EXPECT_FALSE(std::isnan(static_cast<float>(codes[i]) * scales[i]));
    }
    EXPECT_NEAR(static_cast<float>(codes[1]) * scales[1], far < 1 ? 1e-36 : 0, 1e-38);
  }
}

}  // namespace
}  // namespace bitpress::weights
