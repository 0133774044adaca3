#include "finetune/gather.h"

#include <gtest/gtest.h>

#include "finetune/layer_tuner.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

std::vector<size_t> GroupSizes(std::span<const LinearLayer> layers, const GatherOptions& options) {
  std::vector<size_t> sizes;
  for (const std::span<const LinearLayer> group : GroupLayers(layers, options)) {
    sizes.push_back(group.size());
  }
  return sizes;
}

using Sizes = std::vector<size_t>;

TEST(GroupLayers, LearningCountsBesideTheSums) {
  const std::vector<LinearLayer> layers(3, GemmLayer(1000, 10));
  const uint64_t sums = AccumulatorBytes(layers[0]);
  const uint64_t moments = MomentBytes(ShapeOf(layers[0]));
  const uint64_t tuner = TunerBytes(layers[0]);
  // The tuner holds two matrices of inputs x inputs: its own, and the one that it factors.
  EXPECT_GE(tuner, 2 * 1000 * 1000 * sizeof(double));
  EXPECT_LE(tuner, 2.2 * 1000 * 1000 * sizeof(double));
  GatherOptions options;
  EXPECT_GT(tuner, sums);
  // The first layer learns, and two more wait.
  options.memory_limit = 2 * sums + moments + tuner;
  EXPECT_EQ(GroupSizes(layers, options), Sizes({3}));
  --options.memory_limit;
  EXPECT_EQ(GroupSizes(layers, options), Sizes({2, 1}));
  options.memory_limit = sums + moments;
  EXPECT_EQ(GroupSizes(layers, options), Sizes({1, 1, 1}));
  options.is_for_tuner = false;
  options.memory_limit = 2 * sums + moments;  // the sums of a layer become moments
  EXPECT_EQ(GroupSizes(layers, options), Sizes({2, 1}));
  options.is_spilled = true;
  EXPECT_EQ(GroupSizes(layers, options), Sizes({3}));
}

TEST(GroupLayers, LayersThatHaveLearnedReleaseTheirMoments) {
  const LinearLayer large = GemmLayer(1000, 10);
  const LinearLayer small = GemmLayer(100, 10);
  GatherOptions options;
  // While the last layer learns, the moments of those before it are released.
  options.memory_limit = MomentBytes(ShapeOf(large)) + TunerBytes(large) + AccumulatorBytes(small);
  EXPECT_EQ(GroupSizes(std::vector<LinearLayer>{small, large}, options), Sizes({2}));
  EXPECT_EQ(GroupSizes(std::vector<LinearLayer>{large, small}, options), Sizes({2}));
  --options.memory_limit;
  EXPECT_EQ(GroupSizes(std::vector<LinearLayer>{small, large}, options), Sizes({2}));
  EXPECT_EQ(GroupSizes(std::vector<LinearLayer>{large, small}, options), Sizes({1, 1}));
  // Samples that are held back have moments of their own.
  options.hold_back_every = 8;
  EXPECT_EQ(GroupSizes(std::vector<LinearLayer>{small, large}, options), Sizes({1, 1}));
}

TEST(GroupLayers, LayersOfOneFloatInputShareTheirMoments) {
  LinearLayer layer = GemmLayer(1000, 10);
  layer.float_input = 0;
  std::vector<LinearLayer> layers(3, layer);
  GatherOptions options;
  EXPECT_FALSE(layer.observes_outputs());
  const uint64_t moments = MomentBytes(ShapeOf(layer));
  options.memory_limit = moments + TunerBytes(layer);
  EXPECT_EQ(GroupSizes(layers, options), Sizes({3}));
  layers[2].float_input = 1;
  EXPECT_EQ(GroupSizes(layers, options), Sizes({2, 1}));
}

TEST(SplitOf, FewRunsAreSplitIntoHalves) {
  EXPECT_EQ(SplitOf(100, 0), Split::kNone);
  EXPECT_EQ(SplitOf(1, 8), Split::kPositions);
  EXPECT_EQ(SplitOf(0, 8), Split::kHalves);
  EXPECT_EQ(SplitOf(2, 8), Split::kHalves);
  EXPECT_EQ(SplitOf(31, 8), Split::kHalves);
  EXPECT_EQ(SplitOf(32, 8), Split::kHeldBack);
  EXPECT_EQ(SplitOf(32, 1), Split::kHalves);
  EXPECT_TRUE(IsHeldBack(8, Split::kHeldBack, 8));
  EXPECT_FALSE(IsHeldBack(4, Split::kHeldBack, 8));
  EXPECT_TRUE(IsHeldBack(4, Split::kHalves, 8));
  EXPECT_FALSE(IsHeldBack(1, Split::kHalves, 8));
}

}  // namespace
}  // namespace bitpress::finetune
