#include "finetune/activation_function.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/test_support.h"

namespace bitpress::finetune {
namespace {

using Kind = ActivationFunction::Kind;

TEST(ActivationFunction, SlopesAreThoseOfTheValues) {
  const std::vector<ActivationFunction> all{{Kind::kClip, 0, 6},
                                            {Kind::kLeakyRelu, 0.1F, 0},
                                            {Kind::kHardSigmoid, 0.2F, 0.5F},
                                            {Kind::kHardSwish, 1.0F / 6, 0.5F},
                                            {Kind::kSigmoid, 0, 0},
                                            {Kind::kSilu, 0, 0},
                                            {Kind::kTanh, 0, 0},
                                            {Kind::kGelu, 0, 0}};
  for (const ActivationFunction& activation : all) {
    for (float x = -7.3F; x < 7.5F; x += 0.37F) {
      constexpr float kStep = 1e-2F;
      const float rise = activation.Apply(x + kStep) - activation.Apply(x - kStep);
      EXPECT_NEAR(activation.Slope(x), rise / (2 * kStep), 2e-3)
          << static_cast<int>(activation.kind) << " at " << x;
    }
  }
}

TEST(FindActivation, LooksAtWhatAloneReadsTheValue) {
  const graph::Model model = plan::LoadModel("convnet.onnx");
  const std::optional<ActivationFunction> clip = FindActivation(model, "a");
  ASSERT_TRUE(clip);
  EXPECT_EQ(clip->kind, Kind::kClip);
  EXPECT_EQ(clip->a, 0);
  EXPECT_EQ(clip->b, 6);
  EXPECT_FALSE(FindActivation(model, "b"));       // two nodes
  EXPECT_FALSE(FindActivation(model, "d"));       // a convolution
  EXPECT_FALSE(FindActivation(model, "logits"));  // an output
}

TEST(FindActivation, KnowsGates) {
  graph::Model model = plan::LoadModel("convnet.onnx");
  const std::vector<graph::Node> nodes = model.Nodes();
  model.InsertNode({"gate", "HardSigmoid", "", {"d"}, {"open"}, {{"alpha", 0.25F}}}, nodes[4]);
  model.InsertNode({"swish", "Mul", "", {"d", "open"}, {"swished"}, {}}, nodes[4]);
  graph::Node reader = nodes[4];
  reader.set_input(0, "swished");
  const std::optional<ActivationFunction> swish = FindActivation(model, "d");
  ASSERT_TRUE(swish);
  EXPECT_EQ(swish->kind, Kind::kHardSwish);
  EXPECT_EQ(swish->a, 0.25F);
  EXPECT_EQ(swish->b, 0.5F);
}

}  // namespace
}  // namespace bitpress::finetune
