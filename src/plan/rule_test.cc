#include "plan/rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/quant_config.h"

namespace bitpress::plan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string RuleErrorOf(const std::string& text) {
  try {
    ParseRule(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseRule, SelectorsAndSettings) {
  const Rule rule = ParseRule(
      "op_types=Conv;MatMul nodes=/a/.* from=x;y to=z: weights=bfp(bits=13, block=32), "
      "weight_scale=mse activation_range=percentile(99.9)");
  EXPECT_THAT(rule.op_types, ElementsAre("Conv", "MatMul"));
  EXPECT_THAT(rule.nodes, ElementsAre("/a/.*"));
  EXPECT_THAT(rule.from, ElementsAre("x", "y"));
  EXPECT_THAT(rule.to, ElementsAre("z"));
  EXPECT_THAT(rule.settings,
              ElementsAre(Pair("weights", "bfp(bits=13, block=32)"), Pair("weight_scale", "mse"),
                          Pair("activation_range", "percentile(99.9)")));
  EXPECT_FALSE(rule.exclude);
  EXPECT_EQ(ParseRule(RuleText(rule)), rule);
}

TEST(ParseRule, RolesAndLayers) {
  const Rule rule = ParseRule("roles=attn_v;mlp_down layers=0-3;29: weights=mx9");
  EXPECT_THAT(rule.roles, ElementsAre("attn_v", "mlp_down"));
  EXPECT_THAT(rule.layers, ElementsAre("0-3", "29"));
  EXPECT_EQ(ParseRule(RuleText(rule)), rule);
  EXPECT_EQ(ParseLayerRange("29").last, 29);
  EXPECT_THAT(ParseRule("layers=mixed: weights=mx9").layers, ElementsAre("mixed"));
  EXPECT_EQ(ParseLayerRange("2-17").first, 2);
  EXPECT_THAT(RuleErrorOf("roles=attn_w: weights=mx9"), HasSubstr("did you mean 'attn_"));
  EXPECT_THAT(RuleErrorOf("rols=attn_v: weights=mx9"), HasSubstr("did you mean 'roles'"));
  for (const char* const wrong : {"3-1", "-1", "a", "1-", "1-2-3", "0 -"}) {
    EXPECT_THAT(RuleErrorOf(std::string("layers=") + wrong + ": exclude"), HasSubstr("layer"));
  }
}

TEST(ParseRule, Exclusions) {
  const Rule rule = ParseRule("tensors=h.*: exclude, optional");
  EXPECT_TRUE(rule.exclude);
  EXPECT_TRUE(rule.is_optional);
  EXPECT_EQ(ParseRule(RuleText(rule)), rule);
}

TEST(ParseRule, ErrorsNameTheWord) {
  EXPECT_THAT(RuleErrorOf("op_types=Conv"), HasSubstr("WHO: WHAT"));
  EXPECT_THAT(RuleErrorOf("op_type=Conv: exclude"), HasSubstr("did you mean 'op_types'"));
  EXPECT_THAT(RuleErrorOf("op_types=Conv: weihts=int4"), HasSubstr("did you mean 'weights'"));
  EXPECT_THAT(RuleErrorOf("op_types=Conv: weights=int5"), HasSubstr("int5"));
  EXPECT_THAT(RuleErrorOf("op_types=Conv: exlude"), HasSubstr("did you mean 'exclude'"));
  EXPECT_THAT(RuleErrorOf("op_types=Conv: exclude, weights=int4"), HasSubstr("two things"));
  EXPECT_THAT(RuleErrorOf("op_types=Conv: "), HasSubstr("nothing"));
  EXPECT_THAT(RuleErrorOf(": exclude"), HasSubstr("selects nothing"));
  EXPECT_THAT(RuleErrorOf("nodes=(: exclude"), HasSubstr("regular expression"));
  EXPECT_THAT(RuleErrorOf("nodes=a nodes=b: exclude"), HasSubstr("twice"));
  EXPECT_THAT(RuleErrorOf("nodes=a: placement=all"), HasSubstr("whole model"));
}

TEST(ConfigFromJson, ReadsWhatPeopleWrite) {
  const QuantConfig config = ConfigFromJson(R"({
    "preset": "INT8",
    "reduce_range": true,
    "exclude_op_types": ["Gemm", "MatMul"],
    "rules": [
      {"op_types": "Conv", "nodes": ["/a/.*", "b"], "weights": "int4", "weight_block_size": 64},
      {"tensors": "x", "optional": true, "exclude": true}
    ]})");
  EXPECT_EQ(config.name, "INT8");
  EXPECT_EQ(config.integer_kernels, IntegerKernels::kReduceRange);
  EXPECT_THAT(config.exclude_op_types, ElementsAre("Gemm", "MatMul"));
  ASSERT_EQ(config.rules.size(), 2u);
  EXPECT_THAT(config.rules[0].op_types, ElementsAre("Conv"));
  EXPECT_THAT(config.rules[0].settings,
              ElementsAre(Pair("weights", "int4"), Pair("weight_block_size", "64")));
  EXPECT_TRUE(config.rules[1].exclude);
  EXPECT_EQ(ConfigFromJson(ToJson(config)), config);
}

TEST(ConfigFromJson, ErrorsSayWhere) {
  const auto message = [](const char* text) -> std::string {
    try {
      ConfigFromJson(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(R"({"preset": "INT9"})"), HasSubstr("did you mean 'INT8'"));
  EXPECT_THAT(message(R"({"weigths": "int8"})"), HasSubstr("did you mean 'weights'"));
  EXPECT_THAT(message(R"({"rules": [{"op_types": "Conv", "weigths": "int8"}]})"),
              AllOf(HasSubstr("rules[0]"), HasSubstr("did you mean 'weights'")));
  EXPECT_THAT(message(R"({"rules": [{"op_types": 3, "exclude": true}]})"), HasSubstr("op_types"));
  EXPECT_THAT(message(R"({"weights": "int8"} x)"), HasSubstr("JSON"));
}

}  // namespace
}  // namespace bitpress::plan
