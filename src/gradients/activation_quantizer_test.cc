#include "gradients/activation_quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "formats/reference.h"
#include "gradients/block.h"
#include "graph/test_models.h"

namespace bitpress::gradients {
namespace {

TEST(ActivationQuantizer, MasksWhatSaturatesInABlock) {
  ThreadPool pool(2);
  formats::FormatSpec spec = formats::FindFormat("mxfp4_e2m1");
  spec.block_size = 4;
  // A largest magnitude of 7.5 has the scale 1 with floor: values above 7 saturate at 6.
  Array<float> x{{2, 4}, {7.5F, 6.9F, -7.5F, 0.1F, 3.9F, 3.4F, 1, 0}};
  Array<float> y;
  std::vector<uint8_t> passes;
  spec.scale_choice = formats::ScaleChoice::kFloor;
  MakeFloatQuantizer(spec, -1, {})->Run(x, y, passes, pool);
  EXPECT_THAT(y.values, testing::ElementsAre(6, 6, -6, 0, 3, 3, 1, 0));
  EXPECT_THAT(passes, testing::ElementsAre(0, 1, 0, 1, 0, 1, 1, 1));
  // Blocks along the first axis hold other values together.
  x.dims = {4, 2};
  MakeFloatQuantizer(spec, 0, {})->Run(x, y, passes, pool);
  EXPECT_THAT(passes, testing::ElementsAre(0, 1, 0, 1, 1, 1, 1, 1));
  spec.scale_choice = formats::ScaleChoice::kCeil;
  MakeFloatQuantizer(spec, 0, {})->Run(x, y, passes, pool);
  EXPECT_TRUE(passes.empty());
}

TEST(ActivationQuantizer, DividesByTheScaleOfATensor) {
  ThreadPool pool(1);
  const formats::FormatSpec spec = formats::FindFormat("fp8_e4m3");
  const Array<float> x{{3}, {1000, 896, 3}};
  Array<float> y;
  std::vector<uint8_t> passes;
  MakeFloatQuantizer(spec, 0, 2.0F)->Run(x, y, passes, pool);
  EXPECT_THAT(y.values, testing::ElementsAre(896, 896, 3));
  EXPECT_THAT(passes, testing::ElementsAre(0, 1, 1));
}

TEST(ActivationQuantizer, RoundsToIntegersAndMasksTheirEnds) {
  ThreadPool pool(1);
  const Array<float> x{{5}, {-100, -64.2F, 0.3F, 63.5F, 64.5F}};
  Array<float> y;
  std::vector<uint8_t> passes;
  MakeIntegerQuantizer(formats::ElementType::kUInt8, {0.5F, 128})->Run(x, y, passes, pool);
  EXPECT_THAT(y.values, testing::ElementsAre(-64, -64, 0.5F, 63.5F, 63.5F));
  EXPECT_THAT(passes, testing::ElementsAre(0, 1, 1, 1, 0));
}

TEST(ActivationQuantizer, StandsBeforeTheReadingsOfABlockThatItIsFor) {
  const graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[1,2] x) => (float[1,2] y) "
      "<float[1,2] w> { h = Mul(x, w) r = Relu(h) y = Add(h, r) }");
  ThreadPool pool(1);
  const std::vector<std::string> learned{"w"};
  const std::vector<QuantizedValue> quantized{
      {"h", MakeIntegerQuantizer(formats::ElementType::kInt8, {1, 0}), {{"r", 0}}}};
  Block<float> block(model, {model.Nodes(), {"y"}}, learned, quantized, pool);
  block.Input(0) = {{1, 2}, {1, 1}};
  block.Constant("w").values = {1.25F, 300};
  block.Forward();
  EXPECT_THAT(block.Output(0).values, testing::ElementsAre(2.25F, 427));
  block.OutputGradient(0) = {{1, 2}, {1, 1}};
  block.Backward();
  EXPECT_THAT(block.Gradient("w").values, testing::ElementsAre(2, 1));
}

}  // namespace
}  // namespace bitpress::gradients
