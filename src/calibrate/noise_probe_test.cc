#include "calibrate/noise_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_support.h"
#include "calibrate/test_statistics.h"

namespace bitpress::calibrate {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kTiny = 1e-9;

// y = x [[1, 2], [3, 4], [5, 6]] + k
graph::Model AffineModel() {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "affine.onnx");
  model.InferShapes();
  return model;
}

std::vector<Tensor> Sample(std::vector<float> x) {
  return {MakeTensor(DataType::kFloat, {1, 3}, x),
          MakeTensor(DataType::kInt64, {1}, std::vector<int64_t>{0})};
}

// A plan that rounds values to whole numbers in int8.
plan::ResolvedPlan WholeNumbers(const graph::Model& model, const std::vector<std::string>& values) {
  const plan::NodeIndex index(model);
  plan::ResolvedPlan resolved;
  for (const std::string& value : values) {
    plan::TensorPlan row;
    row.value = value;
    row.format = "int8";
    row.integer.emplace();
    for (const graph::Use& use : model.AllUses(value)) {
      row.uses.push_back(
          {index.KeyOf(use.node), use.node.op_type(), static_cast<int64_t>(use.input_index)});
    }
    resolved.scales[plan::ScaleKeyOf(row)] = {1, 0};
    resolved.plan.tensors.push_back(std::move(row));
  }
  return resolved;
}

class NoiseProbeTest : public testing::Test {
 protected:
  // Returns the noise over every `step`-th sample.
  OutputNoise Noise(const std::vector<bool>& is_rounded, size_t step) {
    std::vector<size_t> samples;
    for (size_t i = 0; i < probe_.num_samples(); i += step) samples.push_back(i);
    return NoiseOf(probe_.Measure(is_rounded, samples).of_rounding);
  }

  graph::Model model_ = AffineModel();
  // The product before the sum, and what it is of.
  plan::ResolvedPlan resolved_ = WholeNumbers(model_, {"x", "product"});
  NoiseProbe probe_{model_, resolved_, {0, 1}, 1};
};

TEST_F(NoiseProbeTest, MeasuresEachRowForItself) {
  probe_.AddSample(Sample({1.25, 2, 3}));  // y = 22.25, 28.5
  const double signal = 22.25 * 22.25 + 28.5 * 28.5;
  EXPECT_THAT(Noise({false, false}, 1), ElementsAre(0.0));
  EXPECT_EQ(probe_.NameOf(0), "output 'y'");
  EXPECT_EQ(probe_.OutputOf(0), "y");
  // x becomes 1, 2, 3, and y 22, 28. Rounding the product gives the same: 28.5 goes to even.
  const double noise = (0.25 * 0.25 + 0.5 * 0.5) / signal;
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(noise, kTiny)));
  EXPECT_THAT(Noise({false, true}, 1), ElementsAre(DoubleNear(noise, kTiny)));
  EXPECT_THAT(Noise({true, true}, 1), ElementsAre(DoubleNear(noise, kTiny)));
}

TEST_F(NoiseProbeTest, CodesSaturate) {
  probe_.AddSample(Sample({200, 0, 0}));  // int8 ends at 127
  EXPECT_THAT(Noise({true, false}, 1),
              ElementsAre(DoubleNear(73.0 * 73.0 / (200.0 * 200.0), kTiny)));
}

TEST_F(NoiseProbeTest, QuietSamplesCountAsMuchAsLoudOnes) {
  probe_.AddSample(Sample({0.25, 0, 0}));  // becomes silent
  probe_.AddSample(Sample({100, 0, 0}));   // stays
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(0.5, kTiny)));
}

TEST_F(NoiseProbeTest, OneLoudSampleDoesNotSilenceTheOthers) {
  probe_.AddSample(Sample({1e9F, 0, 0}));  // saturates at 127
  for (int i = 0; i < 3; ++i) probe_.AddSample(Sample({0.25, 0, 0}));
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(1, 1e-6)));
  probe_.AddSample(Sample({100, 0, 0}));  // stays
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(0.8, 1e-6)));
}

TEST_F(NoiseProbeTest, SilenceHasNothingToLose) {
  probe_.AddSample(Sample({0, 0, 0}));
  EXPECT_THAT(Noise({true, true}, 1), ElementsAre(0.0));
}

TEST_F(NoiseProbeTest, TakesEverySoManySamples) {
  for (const float x : {100.0F, 0.25F, 100.0F, 0.25F, 0.25F}) {
    probe_.AddSample(Sample({x, 0, 0}));
  }
  EXPECT_EQ(probe_.num_samples(), 5U);
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(3.0 / 5, kTiny)));
  EXPECT_THAT(Noise({true, false}, 2), ElementsAre(DoubleNear(1.0 / 3, kTiny)));
  EXPECT_THAT(Noise({true, false}, 4), ElementsAre(DoubleNear(1.0 / 2, kTiny)));
  EXPECT_THAT(Noise({true, false}, 5), ElementsAre(0.0));
}

TEST_F(NoiseProbeTest, TakesOtherScales) {
  probe_.AddSample(Sample({0.25, 0, 0}));
  plan::ScaleTable scales = resolved_.scales;
  for (auto& [key, params] : scales) params.scale = 0.25;
  probe_.SetScales(scales);
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(0.0));
  probe_.SetScales(resolved_.scales);
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(DoubleNear(1, kTiny)));
}

TEST_F(NoiseProbeTest, RunsASampleWithoutRoundingOnce) {
  for (int i = 0; i < 4; ++i) probe_.AddSample(Sample({1.25, 2, 3}));
  EXPECT_EQ(probe_.num_runs(), 0U);
  Noise({true, false}, 2);
  EXPECT_EQ(probe_.num_runs(), 4U);
  Noise({false, true}, 2);
  EXPECT_EQ(probe_.num_runs(), 6U);
  Noise({false, false}, 1);
  EXPECT_EQ(probe_.num_runs(), 8U);
}

TEST_F(NoiseProbeTest, TellsTheErrorOfWeightsFromThatOfRounding) {
  probe_.AddSample(Sample({1.25, 2, 3}));  // y = 22.25, 28.5
  EXPECT_THAT(Noise({false, false}, 1), ElementsAre(0.0));
  graph::Model other = model_.Clone();
  const std::vector<float> weights{1, 2, 3, 4, 5, 7};  // y = 22.25, 31.5
  const std::vector<int64_t> dims{3, 2};
  other.SetInitializer("weight", DataType::kFloat, dims,
                       std::as_bytes(std::span<const float>(weights)));
  probe_.UseWeights(other, resolved_, {0, 1});
  const std::vector<size_t> first{0};
  const NoiseProbe::Measured of_weights = probe_.Measure({false, false}, first);
  const double signal = 22.25 * 22.25 + 28.5 * 28.5;
  EXPECT_THAT(NoiseOf(of_weights.of_rounding), ElementsAre(0.0));
  EXPECT_THAT(NoiseOf(of_weights.in_all), ElementsAre(DoubleNear(9 / signal, kTiny)));
  // The product becomes 22, 32 instead of 22.25, 31.5.
  const NoiseProbe::Measured in_all = probe_.Measure({false, true}, first);
  const double rounded = 22.25 * 22.25 + 31.5 * 31.5;
  EXPECT_THAT(NoiseOf(in_all.of_rounding), ElementsAre(DoubleNear(0.3125 / rounded, kTiny)));
  EXPECT_THAT(NoiseOf(in_all.in_all), ElementsAre(DoubleNear((0.0625 + 12.25) / signal, kTiny)));
}

TEST_F(NoiseProbeTest, NumbersThatAreNotFinite) {
  probe_.AddSample(Sample({kInfinity, 0, 0}));  // the float outputs are not finite: left out
  EXPECT_THAT(Noise({true, false}, 1), ElementsAre(0.0));
}

// Two products and what goes around them, twice: values a0 and a2 in different pieces.
TEST(NoiseProbe, PiecesGiveWhatTheWholeGives) {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "chain.onnx");
  model.InferShapes();
  const plan::ResolvedPlan resolved = WholeNumbers(model, {"a0", "a2"});
  NoiseProbe whole(model, resolved, {0, 1}, 1);
  NoiseProbe pieces(model, resolved, {0, 1}, 1, /*in_pieces=*/true);
  EXPECT_EQ(whole.num_pieces(), 1U);
  ASSERT_GE(pieces.num_pieces(), 2U);
  const std::vector<size_t> first{0};
  for (NoiseProbe* probe : {&whole, &pieces}) {
    probe->AddSample({MakeTensor(DataType::kFloat, {1, 4}, std::vector<float>{1.5, 2, 3, 4})});
  }
  for (const std::vector<bool>& is_rounded : {std::vector{false, false}, std::vector{true, false},
                                              std::vector{false, true}, std::vector{true, true}}) {
    const double wanted = NoiseOf(whole.Measure(is_rounded, first).of_rounding).at(0);
    const double found = NoiseOf(pieces.Measure(is_rounded, first).of_rounding).at(0);
    EXPECT_NEAR(found, wanted, 1e-6 * wanted);
    EXPECT_EQ(wanted > 0, is_rounded[0] || is_rounded[1]);
  }
  // The run for a2 alone began in the middle.
  EXPECT_EQ(whole.num_runs(), 4U);
  EXPECT_LE(pieces.num_runs(), 4U);
}

}  // namespace
}  // namespace bitpress::calibrate
