#include <gtest/gtest.h>

#include <cmath>

#include "finetune/cholesky.h"
#include "finetune/layer_tuner.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// Several blocks of columns give what the definition gives column by column: each target, and its
// compensation for the errors of all columns behind it.
TEST(Gptq, BlocksAreColumnsOneByOne) {
  constexpr int64_t kColumns = 300;
  const plan::TensorPlan row = RowOf("mxint8");
  const LinearLayer layer = GemmLayer(kColumns, kOutputs, &row);
  std::vector<float> x = RandomNormal(600 * kColumns, 1);
  for (size_t i = 1; i < x.size(); ++i) x[i] = 0.6F * x[i] + 0.8F * x[i - 1];
  const std::vector<float> weights = RandomNormal(kColumns * kOutputs, 2);
  const Moments moments = GemmMoments(layer, x, ComputeGemm(layer, x, weights, {}));
  ThreadPool pool(2);
  LayerTunerOptions options;
  options.activation_order = false;
  WeightGrid grid(row, plan::OperatorSet::kBitpress, {kOutputs, kColumns}, "Gemm");
  LayerTuner tuner(layer, moments, weights, {}, grid, options, pool);
  tuner.Gptq();

  // The matrix with its ridge, in the order of rounding: the last column is rounded first.
  constexpr auto kSize = static_cast<size_t>(kColumns);
  std::vector<double> matrix(kSize * kSize);
  double trace = 0;
  for (size_t i = 0; i < kSize; ++i) trace += moments.inputs[i * kSize + i] / 600;
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) {
      matrix[i * kSize + j] =
          moments.inputs[(kSize - 1 - i) * kSize + kSize - 1 - j] / 600 +
          (i == j ? options.ridge * trace / static_cast<double>(kColumns) : 0.0);
    }
  }
  ASSERT_TRUE(FactorExactly(matrix, kColumns));
  size_t num_different = 0;
  for (size_t output = 0; output < kOutputs; ++output) {
    std::vector<double> errors(kSize);
    for (size_t i = kSize; i-- > 0;) {
      double sum = 0;
      for (size_t j = i + 1; j < kSize; ++j) sum += matrix[j * kSize + i] * errors[j];
      const size_t element = output * kSize + kSize - 1 - i;
      const double target = double{weights[element]};
      const double value = grid.Round(element, target + sum / matrix[i * kSize + i]);
      // The columns behind depend on this column's value, and a tie may go the other way.
      if (std::abs(value - double{tuner.quantized()[element]}) > 1e-6) ++num_different;
      errors[i] = target - double{tuner.quantized()[element]};
    }
  }
  EXPECT_LE(num_different, 2U);
}

}  // namespace
}  // namespace bitpress::finetune
