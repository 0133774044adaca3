// The products of operators, counted by hand.
#include "ops/multiply_adds.h"

#include <gtest/gtest.h>

#include "graph/test_models.h"

namespace bitpress::ops {
namespace {

double Count(const graph::Model& model, const char* value) {
  const graph::Node node = *model.Producer(value);
  return MultiplyAdds(node, KnownShapes(model, node));
}

TEST(MultiplyAdds, OfFloatOperators) {
  graph::Model model = graph::FromText(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 4, 9, 9] x, float[6, 2, 3, 3] w, float[6, 5, 2, 2] t, float[7, 81] a,
       float[81, 10] b, float[5, N, 3] s, float[1, 8, 3] p, float[1, 8, 2] r,
       int64[4] shape)
      => (float[N, 6, 5, 5] conv, float[N, 5, 10, 10] spread, float[7, 10] product,
          float[N, 4, 9, 10] stack, float[5, 1, N, 2] states, float[N, 6, 5, 5] limited)
    {
      conv = Conv <strides = [2, 2], pads = [1, 1, 1, 1], group = 2> (x, w)
      spread = ConvTranspose <strides = [2, 2]> (conv, t)
      product = Gemm (a, b)
      flat = Reshape (x, shape)
      stack = MatMul (flat, b)
      states = LSTM <hidden_size = 2> (s, p, r)
      limited = Relu (conv)
    })");
  EXPECT_EQ(Count(model, "conv"), 6 * 5 * 5 * 2 * 9);  // each element: 2 channels of 3x3
  EXPECT_EQ(Count(model, "spread"), 6 * 5 * 5 * 5 * 4);
  EXPECT_EQ(Count(model, "product"), 7 * 81 * 10);
  EXPECT_EQ(Count(model, "states"), 5 * (8 * 3 + 8 * 2));
  EXPECT_EQ(Count(model, "limited"), 0);
  // Where the output is not known, the input and the weight say as much.
  const graph::Node conv = *model.Producer("conv");
  EXPECT_EQ(MultiplyAdds(
                conv, {.data = {1, 4, 10, 10}, .weight = {6, 2, 3, 3}, .states = {}, .output = {}}),
            100.0 / 4 * 6 * 18);
  const graph::Node product = *model.Producer("product");
  EXPECT_EQ(
      MultiplyAdds(product, {.data = {7, 81}, .weight = {81, 10}, .states = {}, .output = {}}),
      7 * 81 * 10);
  EXPECT_EQ(MultiplyAdds(product, {}), 0);
}

TEST(MultiplyAdds, OfOperatorsOnCodes) {
  const graph::Model model = graph::FromText(R"(
    <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "bitpress" : 1]>
    g (uint8[1, 4, 8, 8] x, float s, uint8 z, int8[6, 4, 3, 3] w, int8 wz, uint8[5, 16] a,
       int8[16, 3] b, float[5, 16] f, uint8[99] codes)
      => (uint8[1, 6, 6, 6] conv, int32[5, 3] product, float[5, 20] own)
    {
      conv = QLinearConv (x, s, z, w, s, wz, s, z)
      product = MatMulInteger (a, b)
      own = bitpress.MatMul_mx6_1 <shape = [16, 20]> (f, codes)
    })");
  EXPECT_EQ(Count(model, "conv"), 6 * 6 * 6 * 4 * 9);
  EXPECT_EQ(Count(model, "product"), 5 * 16 * 3);
  EXPECT_EQ(Count(model, "own"), 5 * 16 * 20);
}

}  // namespace
}  // namespace bitpress::ops
