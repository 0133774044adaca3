#include "plan/mixed_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

graph::Model Head(const std::string& of_boxes) {
  graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,8] a, float[1,28,8] b) => (float[1,8,32] y)
    { [scores] s = Sigmoid(b)  [moved] m = Identity(s)  [boxes] c = )" +
                                       of_boxes +
                                       R"((a)  [put] p = Concat<axis = 1>(c, m)
      [turn] y = Transpose<perm = [0, 2, 1]>(p) })");
  model.InferShapes();
  return model;
}

TEST(MixedValues, HoldScoresAndOtherNumbers) {
  EXPECT_THAT(MixedValues(Head("Relu")), UnorderedElementsAre("p", "y"));
  EXPECT_THAT(MixedValues(Head("Sigmoid")), IsEmpty());
}

TEST(MixedValues, StayFloatInBlocks) {
  const graph::Model model = Head("Relu");
  for (const char* const format : {"MX6", "MXINT8"}) {
    const QuantPlan plan = plan::PlanFor(model, format, {"placement=all"});
    EXPECT_THAT(RowOf(plan, "p").reason, HasSubstr("scores")) << format;
    EXPECT_THAT(RowOf(plan, "y").reason, HasSubstr("scores")) << format;
    EXPECT_TRUE(RowOf(plan, "m").is_quantized()) << format;
    EXPECT_TRUE(RowOf(plan, "c").is_quantized()) << format;
  }
  EXPECT_TRUE(RowOf(plan::PlanFor(model, "BF16", {"placement=all"}), "p").is_quantized());
}

}  // namespace
}  // namespace bitpress::plan
