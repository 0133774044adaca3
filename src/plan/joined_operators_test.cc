#include "plan/joined_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

// A Clip to `largest` and a Relu behind products; `sum` is read by the output's Add as well.
graph::Model Network(const std::string& largest) {
  graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,2] x) => (float[2,2] y, float[2,2] shown)
    <float[2,2] w = {1, 2, 3, 4}, float least = {0}, float most = {)" +
                                       largest + R"(}>
    { [one] a = MatMul(x, w)  [clip] b = Clip(a, least, most)
      [two] c = MatMul(b, w)  [relu] d = Relu(c)  [sum] e = Add(d, d)  [act] f = Relu(e)
      [three] shown = MatMul(f, w)  [last] h = Relu(shown)  [end] y = Add(e, h) })");
  model.InferShapes();
  return model;
}

TEST(FloatBetween, ValuesWithOneReaderHaveNoQuantizer) {
  const std::string pairs = "float_between=MatMul>Relu6;MatMul>Relu1;MatMul>Relu;Add > Relu";
  for (const char* const format : {"BF16", "INT8", "FP8_E4M3"}) {
    const QuantPlan plan = plan::PlanFor(Network("6"), format, {"placement=all", pairs});
    EXPECT_THAT(RowOf(plan, "a").reason, HasSubstr("computed as one with Clip")) << format;
    EXPECT_THAT(RowOf(plan, "c").reason, HasSubstr("computed as one with Relu")) << format;
    // Others read these, too, or the model gives them.
    EXPECT_TRUE(RowOf(plan, "e").is_quantized()) << format;
    EXPECT_TRUE(RowOf(plan, "shown").is_quantized()) << format;
    EXPECT_TRUE(RowOf(plan, "b").is_quantized()) << format;
    EXPECT_TRUE(RowOf(plan, "f").is_quantized()) << format;
  }
}

TEST(FloatBetween, ClipsOfOtherLimitsAreNoRelu6) {
  const auto is_joined = [](const std::string& largest, const std::string& reader) {
    const QuantPlan plan = plan::PlanFor(Network(largest), "BF16",
                                         {"placement=all", "float_between=MatMul>" + reader});
    return !RowOf(plan, "a").is_quantized();
  };
  EXPECT_TRUE(is_joined("6", "Relu6"));
  EXPECT_TRUE(is_joined("1", "Relu1"));
  EXPECT_FALSE(is_joined("4", "Relu6"));
  EXPECT_FALSE(is_joined("6", "Relu1"));
  EXPECT_TRUE(is_joined("4", "Clip"));
}

TEST(FloatBetween, BlocksHaveQuantizersUnlessAskedFor) {
  const std::vector<std::string> settings{"placement=all", "float_between=MatMul>Relu6"};
  EXPECT_TRUE(RowOf(plan::PlanFor(Network("6"), "MXINT8", settings), "a").is_quantized());
  std::vector<std::string> both = settings;
  both.emplace_back("float_between_blocks=true");
  EXPECT_FALSE(RowOf(plan::PlanFor(Network("6"), "MXINT8", both), "a").is_quantized());
}

TEST(FloatBetween, RefusesOtherWords) {
  QuantConfig config;
  EXPECT_THROW(ApplySetting(config, "float_between=Conv"), Error);
  EXPECT_THROW(ApplySetting(config, "float_between=Conv>Relu>Clip"), Error);
  EXPECT_THROW(ApplySetting(config, "float_between=Conv>"), Error);
  ApplySetting(config, "float_between=Conv>Relu;MatMul>Clip");
  EXPECT_EQ(ConfigFromJson(ToJson(config)), config);
}

}  // namespace
}  // namespace bitpress::plan
