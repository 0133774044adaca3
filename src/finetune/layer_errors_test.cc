#include <gtest/gtest.h>

#include <utility>

#include "finetune/layer_tuner.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// Errors of moments without outputs are those of moments with the outputs of the float weights.
TEST(LayerErrors, OutputsOfTheFloatWeightsNeedNotBeObserved) {
  const plan::TensorPlan row = RowOf("mx6");
  LinearLayer layer = GemmLayer(kInputs, kOutputs, &row);
  ThreadPool pool(2);
  std::vector<float> x = MixedInputs(500, 1);
  for (float& value : x) value += 20;  // means that are larger than the rest
  const std::vector<float> weights = RandomNormal(kInputs * kOutputs, 2);
  const std::vector<float> bias = RandomNormal(kOutputs, 3);
  const Moments with = GemmMoments(layer, x, ComputeGemm(layer, x, weights, bias));
  LinearLayer reads_floats = layer;
  reads_floats.float_input = 0;
  MomentAccumulator accumulator(reads_floats);
  accumulator.Add(std::vector<int64_t>{500, kInputs}, x.data(), {}, nullptr, RunInOrder());
  const Moments without = accumulator.Finish(RunInOrder()).Finish();
  EXPECT_FALSE(without.has_outputs);
  EXPECT_EQ(without.inputs, with.inputs);
  EXPECT_EQ(without.num_positions, 500);

  WeightGrid grid(row, plan::OperatorSet::kBitpress, {kOutputs, kInputs}, "Gemm");
  const std::vector<float> rounded = grid.Quantize(weights, pool).values;
  std::vector<float> changed = bias;
  std::vector<float> change(kOutputs);
  change[3] = 0.5F;
  changed[3] += 0.5F;
  for (const auto& [biases, changes] :
       {std::pair(bias, std::vector<float>()), std::pair(changed, change)}) {
    const double expected = MeanSquaredError(layer, with, rounded, biases, pool);
    const std::vector<std::vector<float>> all{changes};
    EXPECT_NEAR(MeanSquaredChanges(layer, without, rounded, weights, all, pool).front(), expected,
                1e-4 * expected);
  }
  const Moments* const of_with = &with;
  const Moments* const of_without = &without;
  const double variance = OutputVariance(layer, {&of_with, 1}, weights, pool);
  EXPECT_NEAR(OutputVariance(layer, {&of_without, 1}, weights, pool), variance, 1e-3 * variance);

  // Passes learn the same from both, but for rounding errors of the sums.
  const LayerTunerOptions options;
  WeightGrid other_grid = grid;
  LayerTuner of_observed(layer, with, weights, bias, grid, options, pool);
  LayerTuner of_derived(layer, without, weights, bias, other_grid, options, pool);
  for (LayerTuner* const tuner : {&of_observed, &of_derived}) {
    tuner->Gptq();
    tuner->AdaQuant();
    tuner->CorrectBias();
  }
  for (size_t i = 0; i < bias.size(); ++i) {
    EXPECT_NEAR(of_derived.bias()[i], of_observed.bias()[i], 1e-3);
  }
  EXPECT_LT(
      MeanSquaredError(layer, with, of_derived.quantized(), of_derived.bias(), pool),
      1.05 * MeanSquaredError(layer, with, of_observed.quantized(), of_observed.bias(), pool));
}

}  // namespace
}  // namespace bitpress::finetune
