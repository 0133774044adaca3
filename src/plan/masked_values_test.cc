#include "plan/masked_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A model of scores, to which a mask is added in front of Softmax.
graph::Model MaskedScores(float mask) {
  graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,4] x) => (float[2,4] y)
    <float[4] m = {0, 0, 0, 0}>
    { [shift] s = Relu(x)  [mask] a = Add(s, m)  [move] t = Transpose<perm = [0, 1]>(a)
      [softmax] y = Softmax(t) })");
  const std::vector<float> values{0, 0, mask, 0};
  const int64_t dim = 4;
  model.SetInitializer("m", DataType::kFloat, std::span(&dim, 1),
                       std::as_bytes(std::span<const float>(values)));
  model.InferShapes();
  return model;
}

TEST(MaskedValues, AreThoseInFrontOfSoftmax) {
  for (const float mask :
       {-std::numeric_limits<float>::infinity(), -1e4F, std::numeric_limits<float>::lowest()}) {
    EXPECT_THAT(MaskedValues(MaskedScores(mask)), UnorderedElementsAre("a", "t"));
  }
  EXPECT_THAT(MaskedValues(MaskedScores(-100)), IsEmpty());
  EXPECT_THAT(MaskedValues(MaskedScores(1e5F)), IsEmpty());
}

TEST(MaskedValues, StayFloatWhereElementsShareAScale) {
  const graph::Model model = MaskedScores(-1e9F);
  for (const char* const format : {"MX6", "MXINT8", "MXFP8E4M3"}) {
    const QuantPlan plan = plan::PlanFor(model, format, {"placement=all"});
    EXPECT_THAT(RowOf(plan, "a").reason, HasSubstr("masked")) << format;
    EXPECT_THAT(RowOf(plan, "t").reason, HasSubstr("masked")) << format;
    EXPECT_TRUE(RowOf(plan, "s").is_quantized()) << format;
    EXPECT_TRUE(RowOf(plan, "y").is_quantized()) << format;
  }
  EXPECT_TRUE(RowOf(plan::PlanFor(model, "BF16", {"placement=all"}), "a").is_quantized());
}

}  // namespace
}  // namespace bitpress::plan
