#include "finetune/learn_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "finetune/finetune.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

using plan::FinetunePass;

constexpr int64_t kLayerInputs = 64;
constexpr int64_t kLayerOutputs = 8;

plan::TensorPlan WeightRowOf(const std::string& format) {
  plan::TensorPlan row;
  row.role = plan::Role::kWeight;
  row.format = format;
  row.axis = 1;
  row.scale_choice = formats::ScaleChoice::kMse;
  return row;
}

class LearnLayerTest : public testing::Test {
 protected:
  LayerMoments MomentsOf(size_t num_learned, size_t num_held_back) {
    const auto observe = [&](size_t count, uint32_t seed) {
      std::vector<float> x = RandomNormal(count * kLayerInputs, seed);
      // Inputs depend on their neighbours, so that rounding errors can compensate.
      for (size_t i = 1; i < x.size(); ++i) x[i] = 0.6F * x[i] + 0.8F * x[i - 1];
      for (float& input : x) input += mean_;
      std::vector<float> y = ComputeGemm(layer_, x, weights_, bias_);
      // No weights can explain this noise.
      const std::vector<float> noise = RandomNormal(y.size(), seed + 1);
      for (size_t i = 0; i < y.size(); ++i) y[i] += noise_ * noise[i];
      return GemmMoments(layer_, x, y);
    };
    LayerMoments moments;
    moments.learned = observe(num_learned, 11);
    if (num_held_back == 0) return moments;
    moments.held_back = observe(num_held_back, 21);
    moments.split = Split::kHeldBack;
    return moments;
  }

  LearnedLayer Learn(const std::vector<FinetunePass>& passes, LayerMoments moments) {
    return LearnLayer(layer_, passes, moments);
  }
  LearnedLayer LearnLayer(const LinearLayer& layer, const std::vector<FinetunePass>& passes,
                          LayerMoments& moments) {
    return finetune::LearnLayer({.layer = layer,
                                 .weights = weights_,
                                 .bias = bias_,
                                 .dims = {kLayerOutputs, kLayerInputs},
                                 .operators = plan::OperatorSet::kBitpress,
                                 .passes = passes},
                                moments, {}, pool_);
  }

  const plan::TensorPlan row_ = WeightRowOf("mxfp4_e2m1");
  const LinearLayer layer_ = GemmLayer(kLayerInputs, kLayerOutputs, &row_);
  std::vector<float> weights_ = RandomNormal(kLayerInputs * kLayerOutputs, 2);
  std::vector<float> bias_ = RandomNormal(kLayerOutputs, 3);
  float noise_ = 0;
  float mean_ = 0;
  ThreadPool pool_{2};
};

TEST_F(LearnLayerTest, SaysWhichPassItTookTheWeightsFrom) {
  const LearnedLayer learned = Learn({FinetunePass::kGptq}, MomentsOf(2000, 500));
  EXPECT_TRUE(learned.report.is_tuned);
  EXPECT_EQ(learned.report.taken_from, "gptq");
  EXPECT_LT(learned.report.error_after, learned.report.error_before);
}

// A logarithm or a root may follow.
TEST_F(LearnLayerTest, WeightsAndBiasesOfOneSignKeepIt) {
  for (float& weight : weights_) weight = std::abs(weight) * (weight > 0 ? 1.0F : 0.02F);
  for (float& bias : bias_) bias = 0;
  const LearnedLayer learned =
      Learn({FinetunePass::kGptq, FinetunePass::kAdaQuant, FinetunePass::kBiasCorrection},
            MomentsOf(2000, 500));
  ASSERT_TRUE(learned.report.is_tuned);
  EXPECT_GE(std::ranges::min(learned.learned.weights), 0);
  EXPECT_GE(std::ranges::min(learned.learned.bias), 0);
}

// The mean of the inputs is three times their deviation, so that most of the error is the same at
// every position. No bias makes up for it here: the weights do.
TEST_F(LearnLayerTest, WithoutBiasCorrectionMeansOfErrorsCount) {
  mean_ = 3;
  for (const auto& passes : {std::vector{FinetunePass::kGptq},
                             std::vector{FinetunePass::kGptq, FinetunePass::kAdaQuant}}) {
    const LearnedLayer learned = Learn(passes, MomentsOf(2000, 500));
    EXPECT_TRUE(learned.report.is_tuned);
    EXPECT_LT(learned.report.error_after, 0.3 * learned.report.error_before);
    EXPECT_EQ(learned.learned.bias, bias_);
  }
}

// There is noise and there are fewer positions than inputs, so AdaQuant fits the noise.
TEST_F(LearnLayerTest, KeepsTheDirectWeightsWhereAllThatWasLearnedIsWorse) {
  noise_ = 40;
  const LearnedLayer learned =
      Learn({FinetunePass::kLeastSquares, FinetunePass::kAdaQuant}, MomentsOf(70, 2000));
  EXPECT_FALSE(learned.report.is_tuned);
  EXPECT_EQ(learned.report.error_after, learned.report.error_before);
  EXPECT_NE(learned.report.note.find("what was learned is no better on held-back samples"),
            std::string::npos);
  EXPECT_TRUE(learned.learned.weights.empty());
}

TEST_F(LearnLayerTest, ALaterPassThatFitsTooCloselyDoesNotReplaceAnEarlierOne) {
  noise_ = 10;
  const LearnedLayer both =
      Learn({FinetunePass::kGptq, FinetunePass::kLeastSquares, FinetunePass::kAdaQuant},
            MomentsOf(150, 2000));
  const LearnedLayer first = Learn({FinetunePass::kGptq}, MomentsOf(150, 2000));
  // The errors may differ: GPTQ gets the ridge that was chosen for least squares.
  EXPECT_LE(both.report.error_after, 1.02 * first.report.error_after);
}

TEST_F(LearnLayerTest, ANewBiasIsTakenWhereItHelps) {
  LinearLayer layer = layer_;
  layer.is_bias_new = true;
  bias_.assign(kLayerOutputs, 0.0F);
  const std::vector<FinetunePass> passes{FinetunePass::kBiasCorrection};
  // Rounding errors of inputs with a mean shift the outputs.
  mean_ = 3;
  LayerMoments many = MomentsOf(2000, 500);
  const LearnedLayer learned = LearnLayer(layer, passes, many);
  EXPECT_EQ(learned.learned.bias.size(), static_cast<size_t>(kLayerOutputs));
  EXPECT_LT(learned.report.error_after, 0.5 * learned.report.error_before);
  // If the mean is 0, the mean of a few samples is noise.
  mean_ = 0;
  LayerMoments few = MomentsOf(5, 5000);
  EXPECT_TRUE(LearnLayer(layer, passes, few).learned.bias.empty());
}

TEST_F(LearnLayerTest, SaysWhichSamplesValidated) {
  const std::vector<FinetunePass> passes{FinetunePass::kGptq};
  EXPECT_EQ(Learn(passes, MomentsOf(2000, 500)).report.validated_on, ValidatedOn::kHeldBack);
  EXPECT_EQ(Learn(passes, MomentsOf(2000, 0)).report.validated_on, ValidatedOn::kLearned);
  FinetuneReport report;
  for (const ValidatedOn samples :
       {ValidatedOn::kHeldBack, ValidatedOn::kLearned, ValidatedOn::kLearned}) {
    report.layers.emplace_back().validated_on = samples;
  }
  EXPECT_EQ(report.NumValidatedOn(ValidatedOn::kLearned), 2U);
  EXPECT_EQ(WordOf<ValidatedOn>(kValidatedOnWords, ValidatedOn::kLearned), "learned");
}

// Each half validates what is learned from the other, and the layer learns from both.
TEST_F(LearnLayerTest, HalvesValidateEachOther) {
  const std::vector<FinetunePass> passes{FinetunePass::kGptq};
  for (const Split split : {Split::kHalves, Split::kPositions}) {
    LayerMoments moments = MomentsOf(400, 300);
    moments.split = split;
    const LearnedLayer learned = LearnLayer(layer_, passes, moments);
    EXPECT_TRUE(learned.report.is_tuned);
    EXPECT_EQ(learned.report.validated_on,
              split == Split::kHalves ? ValidatedOn::kHalves : ValidatedOn::kPositions);
    EXPECT_EQ(moments.learned.num_positions, 700);
    ASSERT_EQ(learned.of_halves.size(), 2U);
    EXPECT_NE(learned.of_halves[0].weights, learned.of_halves[1].weights);
    EXPECT_NE(learned.of_halves[0].weights, learned.learned.weights);
  }
}

// One position each, with noise: all that can be learned from them is that noise.
TEST_F(LearnLayerTest, NoiseOfFewPositionsIsNotLearned) {
  noise_ = 10;
  mean_ = 3;
  const std::vector<FinetunePass> passes{FinetunePass::kLeastSquares, FinetunePass::kGptq,
                                         FinetunePass::kAdaQuant, FinetunePass::kBiasCorrection};
  const LayerMoments unseen = MomentsOf(4000, 1);
  const auto error_of = [&](std::span<const float> weights, std::span<const float> bias) {
    return MeanSquaredError(layer_, unseen.learned, weights, bias, pool_);
  };
  const WeightGrid grid(row_, plan::OperatorSet::kBitpress, {kLayerOutputs, kLayerInputs}, "Gemm");
  const double before = error_of(grid.Quantize(weights_, pool_).values, bias_);
  for (const size_t count : {1UL, 2UL, 4UL, 8UL}) {
    LayerMoments moments = MomentsOf(count, count);
    moments.split = Split::kHalves;
    const LearnedLayer learned = LearnLayer(layer_, passes, moments);
    if (!learned.report.is_tuned) continue;
    EXPECT_LT(error_of(learned.learned.weights, learned.learned.bias), 1.1 * before) << count;
  }
}

TEST_F(LearnLayerTest, WithoutValidationItStaysAsRounded) {
  LayerMoments moments = MomentsOf(1, 0);
  moments.split = Split::kPositions;
  const LearnedLayer learned = LearnLayer(layer_, {FinetunePass::kGptq}, moments);
  EXPECT_FALSE(learned.report.is_tuned);
  EXPECT_EQ(learned.report.validated_on, ValidatedOn::kNone);
  EXPECT_NE(learned.report.note.find("none is left for validation"), std::string::npos);
}

TEST_F(LearnLayerTest, NothingObservedIsSaid) {
  const LearnedLayer learned = Learn({FinetunePass::kGptq}, MomentsOf(0, 0));
  EXPECT_EQ(learned.report.validated_on, ValidatedOn::kNone);
  EXPECT_FALSE(learned.report.is_tuned);
  EXPECT_EQ(learned.report.note, "it never ran");
}

}  // namespace
}  // namespace bitpress::finetune
