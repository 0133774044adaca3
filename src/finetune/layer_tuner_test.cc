#include "finetune/layer_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

class LayerTunerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    x_ = MixedInputs(500, 1);
    weights_ = RandomNormal(kInputs * kOutputs, 2);
    bias_ = RandomNormal(kOutputs, 3);
    moments_ = GemmMoments(layer_, x_, ComputeGemm(layer_, x_, weights_, bias_));
  }

  LayerTuner MakeTuner(WeightGrid& grid) {
    return {layer_, moments_, weights_, bias_, grid, options_, pool_};
  }
  WeightGrid MakeGrid() {
    return {row_, plan::OperatorSet::kBitpress, {kOutputs, kInputs}, "Gemm"};
  }
  double ErrorOf(const LayerTuner& tuner) {
    return MeanSquaredError(layer_, moments_, tuner.quantized(), tuner.bias(), pool_);
  }
  std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

  const plan::TensorPlan row_ = RowOf(GetParam());
  const LinearLayer layer_ = GemmLayer(kInputs, kOutputs, &row_);
  ThreadPool pool_{3};
  LayerTunerOptions options_;
  std::vector<float> x_, weights_, bias_;
  Moments moments_;
};

TEST_P(LayerTunerTest, RoundToNearestIsWhatQuantizingDoes) {
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.RoundToNearest();
  const QuantizedWeight direct = MakeGrid().Quantize(weights_, pool_);
  EXPECT_EQ(Copy(tuner.quantized()), direct.values);
}

TEST_P(LayerTunerTest, LeastSquaresOfUnquantizedInputsGivesTheWeightsBack) {
  options_.ridge = 1e-9;
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.LeastSquares();
  tuner.RoundToNearest();
  const QuantizedWeight direct = MakeGrid().Quantize(weights_, pool_);
  // Weights in the middle between two values may differ, and so may the scales of integers, which
  // follow the largest weight.
  size_t num_equal = 0;
  for (size_t i = 0; i < direct.values.size(); ++i) {
    if (std::abs(tuner.quantized()[i] - direct.values[i]) < 1e-4) ++num_equal;
  }
  EXPECT_GE(num_equal, direct.values.size() - 2);
}

TEST_P(LayerTunerTest, EachPassLowersTheError) {
  WeightGrid grid = MakeGrid();
  LayerTuner nearest = MakeTuner(grid);
  nearest.RoundToNearest();
  nearest.CorrectBias();
  WeightGrid gptq_grid = MakeGrid();
  LayerTuner gptq = MakeTuner(gptq_grid);
  gptq.Gptq();
  gptq.CorrectBias();
  WeightGrid round_grid = MakeGrid();
  LayerTuner ada_round = MakeTuner(round_grid);
  ada_round.RoundToNearest();
  ada_round.AdaRound();
  ada_round.CorrectBias();
  WeightGrid quant_grid = MakeGrid();
  LayerTuner ada_quant = MakeTuner(quant_grid);
  ada_quant.Gptq();
  ada_quant.AdaQuant();
  ada_quant.CorrectBias();
  EXPECT_LT(ErrorOf(gptq), ErrorOf(nearest));
  EXPECT_LT(ErrorOf(ada_round), ErrorOf(nearest));
  EXPECT_LE(ErrorOf(ada_quant), ErrorOf(gptq));
}

TEST_P(LayerTunerTest, WhatIsLearnedIsWhatTheModelHolds) {
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.LeastSquares();
  tuner.Gptq();
  tuner.AdaQuant();
  EXPECT_EQ(grid.Quantize(tuner.quantized(), pool_).values, Copy(tuner.quantized()));
}

TEST_P(LayerTunerTest, SearchedScalesLowerTheErrorAndAreKept) {
  WeightGrid nearest_grid = MakeGrid();
  LayerTuner nearest = MakeTuner(nearest_grid);
  nearest.RoundToNearest();
  nearest.CorrectBias();
  WeightGrid grid = MakeGrid();
  LayerTuner searched = MakeTuner(grid);
  searched.SearchScales();
  searched.CorrectBias();
  // The search leaves out the ridge and the errors between inputs with different scales.
  EXPECT_LE(ErrorOf(searched), 1.05 * ErrorOf(nearest));
  EXPECT_EQ(grid.Quantize(searched.quantized(), pool_).values, Copy(searched.quantized()));
  // Later passes use the scales that the search found.
  searched.Gptq();
  searched.CorrectBias();
  EXPECT_EQ(grid.Quantize(searched.quantized(), pool_).values, Copy(searched.quantized()));
  EXPECT_LT(ErrorOf(searched), ErrorOf(nearest));
}

TEST_P(LayerTunerTest, RefreshedScalesAreKept) {
  options_.refresh_scales = true;
  WeightGrid nearest_grid = MakeGrid();
  LayerTuner nearest = MakeTuner(nearest_grid);
  nearest.RoundToNearest();
  WeightGrid grid = MakeGrid();
  LayerTuner refreshed = MakeTuner(grid);
  refreshed.Gptq();
  EXPECT_EQ(grid.Quantize(refreshed.quantized(), pool_).values, Copy(refreshed.quantized()));
  EXPECT_LT(ErrorOf(refreshed), ErrorOf(nearest));
  options_.refresh_scales = false;
  WeightGrid fixed_grid = MakeGrid();
  LayerTuner fixed = MakeTuner(fixed_grid);
  fixed.Gptq();
  // Each choice is the best one for its scale, and not for those that follow.
  EXPECT_LE(ErrorOf(refreshed), 1.2 * ErrorOf(fixed));
}

TEST_P(LayerTunerTest, AdaRoundTakesOneOfTheTwoValuesAround) {
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.RoundToNearest();
  tuner.AdaRound();
  size_t num_changed = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const double step = grid.StepAt(i, weights_[i]);
    const double nearest = grid.Round(i, weights_[i]);
    EXPECT_LE(std::abs(double{tuner.quantized()[i]} - nearest), 1.001 * step) << i;
    if (double{tuner.quantized()[i]} != nearest) ++num_changed;
  }
  EXPECT_GT(num_changed, 0U);
}

TEST_P(LayerTunerTest, WeightsOfOneSignKeepIt) {
  // Half of the weights are hardly there, so that every pass wants some of them beyond 0.
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = std::abs(weights_[i]) * (i % 2 == 0 ? 1.0F : 0.01F);
  }
  for (float& bias : bias_) bias = 0;
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> weights = weights_;
    for (float& weight : weights) weight *= sign;
    moments_ = GemmMoments(layer_, x_, ComputeGemm(layer_, x_, weights, bias_));
    const auto learn = [&](bool keeps_sign) {
      WeightGrid grid = MakeGrid();
      if (keeps_sign) grid.KeepSignOf(weights);
      LayerTuner tuner(layer_, moments_, weights, bias_, grid, options_, pool_);
      tuner.SearchScales();
      tuner.Gptq();
      tuner.AdaRound();
      tuner.AdaQuant();
      tuner.CorrectBias();
      std::vector<float> all = grid.Quantize(tuner.quantized(), pool_).values;
      all.insert(all.end(), tuner.bias().begin(), tuner.bias().end());
      return std::ranges::count_if(all, [&](float value) { return value * sign < 0; });
    };
    EXPECT_GT(learn(false), 0);
    EXPECT_EQ(learn(true), 0);
  }
}

TEST_P(LayerTunerTest, NoRoundsAreRoundToNearest) {
  options_.num_rounds = 0;
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.RoundToNearest();
  const std::vector<float> nearest = Copy(tuner.quantized());
  tuner.AdaRound();
  EXPECT_EQ(Copy(tuner.quantized()), nearest);
}

TEST_P(LayerTunerTest, GptqOfIndependentInputsIsRoundToNearest) {
  for (int64_t i = 0; i < kInputs; ++i) {
    for (int64_t j = 0; j < kInputs; ++j) {
      if (i != j) moments_.inputs[static_cast<size_t>(i * kInputs + j)] = 0;
    }
  }
  std::fill(moments_.input_sums.begin(), moments_.input_sums.end(), 0.0);
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.RoundToNearest();
  const std::vector<float> nearest = Copy(tuner.quantized());
  tuner.Gptq();
  EXPECT_EQ(Copy(tuner.quantized()), nearest);
}

TEST_P(LayerTunerTest, ThreadsChangeNothing) {
  const auto learn = [&](size_t num_threads) {
    ThreadPool pool(num_threads);
    WeightGrid grid = MakeGrid();
    LayerTuner tuner(layer_, moments_, weights_, bias_, grid, options_, pool);
    tuner.LeastSquares();
    tuner.Gptq();
    tuner.AdaQuant();
    tuner.CorrectBias();
    std::vector<float> result = Copy(tuner.quantized());
    result.insert(result.end(), tuner.bias().begin(), tuner.bias().end());
    return result;
  };
  EXPECT_EQ(learn(1), learn(4));
}

TEST_P(LayerTunerTest, DeadChannelsAndTooFewSamplesKeepTheirWeights) {
  std::vector<float> x = MixedInputs(5, 1);
  for (size_t i = 0; i < x.size(); i += kInputs) x[i] = 0;
  moments_ = GemmMoments(layer_, x, ComputeGemm(layer_, x, weights_, bias_));
  WeightGrid grid = MakeGrid();
  LayerTuner tuner = MakeTuner(grid);
  tuner.LeastSquares();
  tuner.Gptq();
  tuner.AdaQuant();
  tuner.CorrectBias();
  for (size_t i = 0; i < weights_.size(); ++i) {
    EXPECT_TRUE(std::isfinite(tuner.quantized()[i]));
    if (i % kInputs == 0) {
      const double step = grid.StepAt(i, weights_[i]);
      EXPECT_NEAR(tuner.quantized()[i], weights_[i], step) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LayerTunerTest,
                         testing::Values("int4", "int8", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4_e2m1",
                                         "mxint8", "mx6", "bfp16", "fp8_e4m3", "scaled fp8_e4m3",
                                         "scaled fp8_e5m2"));

TEST(LayerTuner, BiasCorrectionRestoresTheMean) {
  const plan::TensorPlan row = RowOf("mxfp4_e2m1");
  const LinearLayer layer = GemmLayer(kInputs, kOutputs, &row);
  ThreadPool pool(1);
  const std::vector<float> x = MixedInputs(300, 5);
  const std::vector<float> weights = RandomNormal(kInputs * kOutputs, 6);
  const std::vector<float> bias = RandomNormal(kOutputs, 7);
  const std::vector<float> y = ComputeGemm(layer, x, weights, bias);
  const Moments moments = GemmMoments(layer, x, y);
  WeightGrid grid(row, plan::OperatorSet::kBitpress, {kOutputs, kInputs}, "Gemm");
  const LayerTunerOptions options;
  LayerTuner tuner(layer, moments, weights, bias, grid, options, pool);
  tuner.RoundToNearest();
  tuner.CorrectBias();
  const std::vector<float> found =
      ComputeGemm(layer, x, {tuner.quantized().begin(), tuner.quantized().end()},
                  {tuner.bias().begin(), tuner.bias().end()});
  for (size_t row_index = 0; row_index < kOutputs; ++row_index) {
    double difference = 0;
    for (size_t i = row_index; i < y.size(); i += kOutputs) {
      difference += double{found[i]} - double{y[i]};
    }
    EXPECT_NEAR(difference / 300, 0, 1e-5);
  }
}

// Passes choose new scales of the kind that the plan wants. A large weight whose input is always 0
// makes the first scales twice as large as the other weights need.
TEST(LayerTuner, ChosenScalesAreOfTheirKind) {
  std::vector<float> x = RandomNormal(500 * kInputs, 1);
  std::vector<float> weights = RandomNormal(kInputs * kOutputs, 2);
  for (size_t i = 0; i < x.size(); i += kInputs) x[i] = 0;
  for (float& w : weights) w *= 0.4F;
  // 3 / 7 is 28087 / 2^16, and half of it is no M / 2^16.
  for (size_t i = 0; i < weights.size(); i += kInputs) weights[i] = 3;
  const std::vector<float> bias(kOutputs, 0.5F);
  ThreadPool pool(2);
  LayerTunerOptions options;
  options.refresh_scales = true;
  using Pass = void (LayerTuner::*)();
  for (const formats::ScaleKind kind :
       {formats::ScaleKind::kPowerOfTwo, formats::ScaleKind::kInt16}) {
    plan::TensorPlan row = RowOf("int4");
    row.integer->scale_kind = kind;
    const LinearLayer layer = GemmLayer(kInputs, kOutputs, &row);
    const Moments moments = GemmMoments(layer, x, ComputeGemm(layer, x, weights, bias));
    for (const Pass pass : {&LayerTuner::SearchScales, &LayerTuner::Gptq}) {
      WeightGrid grid(row, plan::OperatorSet::kBitpress, {kOutputs, kInputs}, "Gemm");
      LayerTuner tuner(layer, moments, weights, bias, grid, options, pool);
      tuner.RoundToNearest();
      const float before = grid.params()[0].scale;
      (tuner.*pass)();
      for (const formats::QParams& params : grid.params()) {
        EXPECT_EQ(params.scale, formats::AllowedScale(params.scale, kind));
        EXPECT_LT(params.scale, 0.6F * before);
      }
      // Learned values are multiples of these scales.
      const std::vector<float> learned(tuner.quantized().begin(), tuner.quantized().end());
      EXPECT_EQ(grid.Quantize(learned, pool).values, learned);
    }
  }
}

// Pair sums of learned weights never saturate, with any pass.
TEST(LayerTuner, LearnedCodesFitTheirPairs) {
  plan::TensorPlan row = RowOf("int8");
  row.integer->is_pair_safe = true;
  const LinearLayer layer = GemmLayer(kInputs, kOutputs, &row);
  const std::vector<float> x = MixedInputs(500, 1);
  std::vector<float> weights = RandomNormal(kInputs * kOutputs, 2);
  for (float& w : weights) w += 0.7F;
  const std::vector<float> bias = RandomNormal(kOutputs, 3);
  const Moments moments = GemmMoments(layer, x, ComputeGemm(layer, x, weights, bias));
  const ops::SumLayout sums =
      ops::MatrixSums(std::vector<int64_t>{kOutputs, kInputs}, ops::SummedDim::kLast);
  const LayerTunerOptions options;
  ThreadPool pool(2);
  using Pass = void (LayerTuner::*)();
  for (const Pass pass : {&LayerTuner::RoundToNearest, &LayerTuner::Gptq, &LayerTuner::AdaRound,
                          &LayerTuner::AdaQuant, &LayerTuner::SearchScales}) {
    WeightGrid grid(row, plan::OperatorSet::kBitpress, {kOutputs, kInputs}, "Gemm",
                    {{sums, {255}, {}}});
    LayerTuner tuner(layer, moments, weights, bias, grid, options, pool);
    tuner.RoundToNearest();
    const double before = MeanSquaredError(layer, moments, tuner.quantized(), tuner.bias(), pool);
    (tuner.*pass)();
    EXPECT_LE(MeanSquaredError(layer, moments, tuner.quantized(), tuner.bias(), pool), before);
    // Storing the learned weights changes no code.
    const std::vector<float> learned(tuner.quantized().begin(), tuner.quantized().end());
    EXPECT_EQ(grid.Quantize(learned, pool).values, learned);
    for (int64_t sum = 0; sum < sums.num_sums; ++sum) {
      const float scale = grid.params()[static_cast<size_t>(sum)].scale;
      for (int64_t i = 0; i < kInputs; i += 2) {
        const auto code = [&](int64_t at) {
          return static_cast<int32_t>(std::lround(learned[sums.ElementOf(sum, at)] / scale));
        };
        ASSERT_TRUE(formats::FitsPairSum({code(i), code(i + 1)}, {}));
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::finetune
