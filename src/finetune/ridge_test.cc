#include "finetune/ridge.h"

#include <gtest/gtest.h>

#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

constexpr int64_t kRidgeInputs = 32;

// Returns the moments of inputs that share a part and have a mean.
Moments NormalMoments(size_t count, uint32_t seed) {
  std::vector<float> x = RandomNormal(count * kRidgeInputs, seed);
  for (size_t i = 1; i < x.size(); ++i) x[i] = 0.6F * x[i] + 0.8F * x[i - 1] + 0.3F;
  return GemmMoments(GemmLayer(kRidgeInputs, 1), x, std::vector<float>(count));
}

TEST(RidgesOf, MorePositionsNeedLess) {
  const LinearLayer layer = GemmLayer(kRidgeInputs, 1);
  double before = kMostRidge;
  for (const size_t count : {4UL, 32UL, 256UL, 2048UL}) {
    const NoiseRidges ridges =
        RidgesOf(layer, NormalMoments(count, 1), NormalMoments(count, 2), true);
    EXPECT_LT(ridges.both, before / 2) << count;
    EXPECT_DOUBLE_EQ(ridges.first, ridges.second);
    EXPECT_NEAR(ridges.first, 2 * ridges.both, 1e-9 * ridges.first);
    before = ridges.both;
  }
  EXPECT_LT(before, 0.02);
}

TEST(RidgesOf, TheLargerPartNeedsLess) {
  const NoiseRidges ridges =
      RidgesOf(GemmLayer(kRidgeInputs, 1), NormalMoments(700, 1), NormalMoments(100, 2), false);
  EXPECT_NEAR(ridges.second, 7 * ridges.first, 1e-9);
  EXPECT_NEAR(ridges.first, ridges.both * 800 / 700, 1e-9);
}

TEST(RidgesOf, OnePositionTellsNothingAboutItsMean) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const NoiseRidges ridges = RidgesOf(GemmLayer(kRidgeInputs, 1), NormalMoments(1, seed),
                                        NormalMoments(1, seed + 100), true);
    EXPECT_EQ(ridges.both, kMostRidge) << seed;
  }
}

}  // namespace
}  // namespace bitpress::finetune
