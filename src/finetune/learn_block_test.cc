#include "finetune/learn_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "finetune/block_crops.h"
#include "finetune/test_layers.h"
#include "graph/test_models.h"

namespace bitpress::finetune {
namespace {

// A block of two layers with weights in a format, and samples whose targets its float form gives.
class TwoLayers {
 public:
  TwoLayers(const std::string& nodes, std::vector<int64_t> weight_dims,
            std::vector<int64_t> input_dims, const std::string& format, size_t num_runs)
      : row_(RowOf(format)) {
    const auto dims = [](const std::vector<int64_t>& of) {
      return fmt::format("{}", fmt::join(of, ","));
    };
    model_.emplace(graph::FromTextWithConstants(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[" + dims(input_dims) +
        "] x) => (float[N] y) <float[" + dims(weight_dims) + "] a, float[" + dims(weight_dims) +
        "] b, float[" + std::to_string(weight_dims[0]) + "] c> { " + nodes + " }"));
    const std::vector<std::string> learned{"a", "b", "c"};
    block_.emplace(*model_, gradients::BlockNodes{model_->Nodes(), {"y"}}, learned,
                   std::span<const gradients::QuantizedValue>(), pool_);
    uint32_t seed = 1;
    for (const std::string& name : learned) {
      std::vector<float>& values = block_->Constant(name).values;
      values = RandomNormal(values.size(), seed++);
      for (float& value : values) value *= 0.3F;
    }
    for (const char* const name : {"a", "b"}) {
      WeightGrid grid(row_, plan::OperatorSet::kBitpress, weight_dims, "node");
      grid.FitScales(block_->Constant(name).values, pool_);
      weights_.push_back({name, block_->Constant(name).values, std::move(grid), true});
    }
    for (size_t run = 0; run < num_runs; ++run) {
      gradients::Array<float> x;
      x.Reshape(input_dims);
      // Inputs depend on each other, so that rounding errors can compensate.
      x.values = RandomNormal(x.size(), static_cast<uint32_t>(100 + run));
      for (size_t i = 1; i < x.size(); ++i)
        x.values[i] = 0.9F * x.values[i - 1] + 0.4F * x.values[i];
      block_->Input(0) = x;
      block_->Forward();
      runs_.push_back({{x}, {block_->Output(0)}});
    }
    samples_.read = [this](size_t run) { return runs_[run]; };
    for (size_t run = 0; run < num_runs; ++run) {
      (run % 4 == 3 ? samples_.validation : samples_.training).push_back(run);
    }
  }

  LearnedBlock Learn(size_t steps = 60, BlockStart start = BlockStart::kFloats,
                     bool evens_positions = false, const BlockVector& vector = {"c"}) {
    const std::array<BlockVector, 1> vectors{vector};
    return LearnBlock(
        *block_, weights_, vectors, samples_,
        {.num_steps = steps, .batch_size = 8, .start = start, .evens_positions = evens_positions},
        pool_);
  }
  gradients::Block<float>& block() { return *block_; }
  BlockSamples& samples() { return samples_; }
  std::vector<BlockSample>& runs() { return runs_; }
  std::vector<BlockWeight>& weights() { return weights_; }

 private:
  plan::TensorPlan row_;
  ThreadPool pool_{2};
  std::optional<graph::Model> model_;
  std::optional<gradients::Block<float>> block_;
  std::vector<BlockWeight> weights_;
  std::vector<BlockSample> runs_;
  BlockSamples samples_;
};

constexpr const char* kMlp = "p = MatMul(x, a) q = Add(p, c) r = Relu(q) y = MatMul(r, b)";

TEST(LearnBlock, RoundsSoThatOutputsComeCloserOnOtherSamples) {
  for (const char* const format : {"mxfp4_e2m1", "mx6", "int4", "scaled nvfp4"}) {
    SCOPED_TRACE(format);
    TwoLayers layers(kMlp, {32, 32}, {24, 32}, format, 64);
    const LearnedBlock learned = layers.Learn();
    ASSERT_TRUE(learned.is_better);
    EXPECT_LT(learned.after.validation, 0.8 * learned.before.validation);
    EXPECT_LT(learned.after.training, learned.before.training);
    EXPECT_GT(learned.best_step, 0);
    // Each weight is one of the two values around the float weight, and the network stores it.
    for (const BlockWeight& weight : layers.weights()) {
      const std::vector<float>& values = learned.weights.at(weight.name).values;
      EXPECT_EQ(values, layers.block().Constant(weight.name).values);
      for (size_t i = 0; i < values.size(); ++i) {
        const double step = weight.grid.StepAt(i, double{weight.wanted[i]});
        EXPECT_LE(std::abs(values[i] - weight.wanted[i]), 1.01 * step);
      }
    }
  }
}

// Returns how many weights are not the values next to what they were.
size_t NumMoved(std::vector<BlockWeight>& weights, const LearnedBlock& learned) {
  size_t count = 0;
  for (const BlockWeight& weight : weights) {
    const std::vector<float>& values = learned.weights.at(weight.name).values;
    for (size_t i = 0; i < values.size(); ++i) {
      count += values[i] != weight.grid.Round(i, double{weight.wanted[i]}) ? 1U : 0U;
    }
  }
  return count;
}

TEST(LearnBlock, MovesFewerWeightsThatDecay) {
  TwoLayers free(kMlp, {32, 32}, {24, 32}, "mx6", 64);
  TwoLayers held(kMlp, {32, 32}, {24, 32}, "mx6", 64);
  for (BlockWeight& weight : held.weights()) weight.decay = 4;
  const LearnedBlock without = free.Learn();
  const LearnedBlock with = held.Learn();
  ASSERT_TRUE(without.is_better);
  ASSERT_TRUE(with.is_better);
  EXPECT_LT(static_cast<double>(NumMoved(held.weights(), with)),
            0.7 * static_cast<double>(NumMoved(free.weights(), without)));
}

TEST(LearnBlock, KeepsTheBetterOfTwoStarts) {
  EXPECT_EQ(NumStepsOf({.num_steps = 60}), 60);
  EXPECT_EQ(NumStepsOf({.num_steps = 60, .start = BlockStart::kBoth}), 90);
  size_t num_second = 0;
  for (const size_t runs : {12U, 16U, 24U, 32U, 64U}) {
    SCOPED_TRACE(runs);
    TwoLayers first(kMlp, {32, 32}, {6, 32}, "mxfp4_e2m1", runs);
    const LearnedBlock roundings = first.Learn();
    ASSERT_TRUE(roundings.is_better);
    const auto learn = [&](BlockStart start) {
      TwoLayers layers(kMlp, {32, 32}, {6, 32}, "mxfp4_e2m1", runs);
      for (BlockWeight& weight : layers.weights()) {
        // It is as near to the float weight as the rounding allows.
        const std::vector<float>& rounded = roundings.weights.at(weight.name).values;
        for (size_t i = 0; i < rounded.size(); ++i) {
          const auto step = static_cast<float>(0.4 * weight.grid.StepAt(i, double{rounded[i]}));
          weight.wanted[i] = std::clamp(weight.wanted[i], rounded[i] - step, rounded[i] + step);
        }
      }
      return layers.Learn(60, start);
    };
    const LearnedBlock once = learn(BlockStart::kFloats);
    const LearnedBlock twice = learn(BlockStart::kBoth);
    EXPECT_EQ(twice.before.validation, once.before.validation);
    EXPECT_LE(twice.after.validation, once.after.validation);
    EXPECT_EQ(twice.best_step > 60, twice.after.validation < once.after.validation);
    num_second += twice.best_step > 60 ? 1U : 0U;
  }
  EXPECT_GT(num_second, 0);
}

TEST(LearnBlock, BeginsFromRoundings) {
  for (const char* const format : {"mxfp4_e2m1", "int4"}) {
    SCOPED_TRACE(format);
    TwoLayers layers(kMlp, {32, 32}, {24, 32}, format, 64);
    const LearnedBlock learned = layers.Learn(40, BlockStart::kRoundings);
    ASSERT_TRUE(learned.is_better);
    EXPECT_LT(learned.after.validation, 0.9 * learned.before.validation);
    EXPECT_LE(learned.best_step, 40);
  }
}

TEST(LearnBlock, LearnsFactorsOfNorms) {
  // The norm's factors are 5 % off, and weights are only rounded.
  TwoLayers layers(
      "n = LayerNormalization<axis=-1>(x, c) p = MatMul(n, a) r = Relu(p) y = MatMul(r, b)",
      {32, 32}, {24, 32}, "mx9", 64);
  std::vector<float>& factors = layers.block().Constant("c").values;
  const std::vector<float> wanted = factors;
  for (size_t i = 0; i < factors.size(); ++i) factors[i] *= i % 2 == 0 ? 1.05F : 0.95F;
  for (BlockWeight& weight : layers.weights()) weight.learns = false;
  const LearnedBlock learned = layers.Learn(60, BlockStart::kRoundings, false, {"c", true});
  ASSERT_TRUE(learned.is_better);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double size = std::abs(double{wanted[i]});
    EXPECT_NEAR(learned.vectors.at("c")[i], wanted[i], 0.025 * size) << i;
  }
}

TEST(LearnBlock, EvensPositions) {
  // One position in 24 has a thousand times the size of the others, and hides them.
  const auto error_of_others = [](bool evens_positions) {
    TwoLayers layers(kMlp, {32, 32}, {24, 32}, "mxfp4_e2m1", 64);
    for (BlockSample& run : layers.runs()) {
      for (size_t i = 0; i < 32; ++i) run.inputs[0].values[i] *= 1000;
      layers.block().Constant("a").values = layers.weights()[0].wanted;
      layers.block().Constant("b").values = layers.weights()[1].wanted;
      layers.block().Input(0) = run.inputs[0];
      layers.block().Forward();
      run.outputs[0] = layers.block().Output(0);
    }
    layers.Learn(60, BlockStart::kFloats, evens_positions);
    double error = 0;
    for (const size_t run : layers.samples().validation) {
      layers.block().Input(0) = layers.runs()[run].inputs[0];
      layers.block().Forward();
      const std::vector<float>& found = layers.block().Output(0).values;
      for (size_t i = 32; i < found.size(); ++i) {
        error += std::pow(double{found[i]} - double{layers.runs()[run].outputs[0].values[i]}, 2);
      }
    }
    return error;
  };
  EXPECT_LT(error_of_others(true), 0.8 * error_of_others(false));
}

TEST(WeightGrid, RoundsMoreAndMore) {
  ThreadPool pool(1);
  for (const char* const format : {"mxfp4_e2m1", "mx6", "int4", "scaled nvfp4"}) {
    SCOPED_TRACE(format);
    const plan::TensorPlan row = RowOf(format);
    WeightGrid grid(row, plan::OperatorSet::kBitpress, {1, 32}, "node");
    const std::vector<float> values = RandomNormal(32, 5);
    grid.FitScales(values, pool);
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = double{values[i]};
      const double rounded = double{grid.Round(i, x)};
      const bool saturates = std::abs(x - rounded) > 0.5 * grid.StepAt(i, x);
      EXPECT_NEAR(grid.RoundSoftly(i, x, 1), saturates ? rounded : x, 1e-6);
      double last = std::abs(x - rounded);
      for (const double sharpness : {1.5, 4.0, 50.0, 1e9}) {
        const double soft = double{grid.RoundSoftly(i, x, sharpness)};
        EXPECT_LE(std::abs(soft - rounded), last + 1e-6);
        EXPECT_GE((soft - rounded) * (x - rounded), 0);
        last = std::abs(soft - rounded);
      }
      EXPECT_EQ(grid.RoundSoftly(i, x, 1e9), grid.Round(i, x));
    }
    EXPECT_EQ(grid.RoundSoftly(0, 1e6, 1), grid.Round(0, 1e6));
  }
}

TEST(LearnBlock, LeavesABlockAsRoundedThatDoesNotComeCloser) {
  TwoLayers layers(kMlp, {32, 32}, {6, 32}, "mx6", 16);
  const std::vector<float> bias = layers.block().Constant("c").values;
  // Samples for validation whose outputs are those of rounded weights: nothing is closer.
  LearnedBlock first = layers.Learn(1);
  for (const size_t run : layers.samples().validation) {
    layers.block().Constant("c").values = bias;
    for (const BlockWeight& weight : layers.weights()) {
      std::vector<float>& values = layers.block().Constant(weight.name).values;
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = weight.grid.Round(i, double{weight.wanted[i]});
      }
    }
    layers.block().Input(0) = layers.runs()[run].inputs[0];
    layers.block().Forward();
    layers.runs()[run].outputs[0] = layers.block().Output(0);
  }
  const LearnedBlock learned = layers.Learn();
  EXPECT_FALSE(learned.is_better);
  EXPECT_TRUE(learned.weights.empty());
  EXPECT_EQ(learned.after.validation, learned.before.validation);
  EXPECT_EQ(layers.block().Constant("c").values, bias);
}

constexpr const char* kConvolutions =
    "p = Conv<pads=[1,1,1,1]>(x, a, c) q = Relu(p) y = Conv<pads=[1,1,1,1], strides=[2,2]>(q, b)";

TEST(BlockBatches, CropPicturesWhereThatGivesTheSameNumbers) {
  TwoLayers layers(kConvolutions, {4, 4, 3, 3}, {1, 4, 64, 64}, "mx6", 4);
  const BlockBatches batches(layers.block(), layers.samples());
  EXPECT_TRUE(batches.is_stacked());
  EXPECT_EQ(batches.crop().size, 28);
  EXPECT_EQ(batches.crop().stride, 2);
  EXPECT_EQ(batches.crop().margin, 1);
  std::mt19937_64 random(3);
  const std::vector<size_t> runs{0, 1, 2};
  const std::vector<BlockBatch> read = batches.Read(runs, random);
  ASSERT_EQ(read.size(), 1);
  EXPECT_THAT(read[0].inputs[0].dims, testing::ElementsAre(3, 4, 28, 28));
  ASSERT_EQ(read[0].counts.size(), 3 * 14 * 14);
  // Where a number counts, it is that of the whole picture.
  RunBlock(layers.block(), read[0]);
  const gradients::Array<float>& found = layers.block().Output(0);
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t sample = i / (4 * 14 * 14);
    if (read[0].counts[sample * 14 * 14 + i % (14 * 14)] == 0) continue;
    EXPECT_NEAR(found.values[i], read[0].outputs[0].values[i], 1e-4);
  }
}

TEST(BlockBatches, TakeWholePicturesAndSingleRunsWhereOthersGiveOtherNumbers) {
  TwoLayers pooled("p = Conv(x, a, c) m = GlobalAveragePool(p) q = Mul(p, m) y = Conv(q, b)",
                   {4, 4, 1, 1}, {1, 4, 64, 64}, "mx6", 4);
  EXPECT_EQ(BlockBatches(pooled.block(), pooled.samples()).crop().size, 0);
  TwoLayers summed(
      "p = MatMul(x, a) q = Add(p, c) r = ReduceMean(q) s = Add(q, r) y = MatMul(s, b)", {32, 32},
      {2, 32}, "mx6", 4);
  EXPECT_FALSE(BlockBatches(summed.block(), summed.samples()).is_stacked());
}

}  // namespace
}  // namespace bitpress::finetune
