#include "search/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"

namespace bitpress::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<std::string> Names(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  return names;
}

TEST(ParseCandidates, ReadsFormatsPresetsAndFloat) {
  const auto candidates = ParseCandidates("mx9, INT8,bfp(bits=13, block=32),float");
  EXPECT_THAT(Names(candidates), ElementsAre("mx9", "INT8", "bfp(bits=13, block=32)", "float"));
  EXPECT_EQ(candidates[1].config.activations, "uint8");
  EXPECT_EQ(candidates[3].config.weights, "none");
}

TEST(ParseCandidates, RefusesWhatIsNoChoice) {
  const auto error = [](const char* text) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { ParseCandidates(text); });
  };
  EXPECT_THAT(error("mx7"), HasSubstr("MX6"));
  EXPECT_THAT(error("mx6,MX6"), HasSubstr("twice"));
  EXPECT_THAT(error("MX6_ADAQUANT"), HasSubstr("setting finetune"));
  EXPECT_THAT(error("S16S16_MIXED_S8S8"), HasSubstr("mix"));
}

TEST(MakeSpace, BothSidesTogetherOrEachByItself) {
  const Space both = MakeSpace(ParseCandidates("mx9,mx6"), {}, {}, std::nullopt);
  EXPECT_THAT(both.combinations, ElementsAre(ElementsAre(0), ElementsAre(1)));
  const Space split =
      MakeSpace({}, ParseCandidates("mx9,mx6"), ParseCandidates("mx9"), std::nullopt);
  EXPECT_THAT(split.combinations, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 2)));
  ExpectError(ErrorCode::kInvalidArgument, [] { MakeSpace({}, {}, {}, std::nullopt); });
}

TEST(MakeSpace, TheBaseIsTheFinestCandidate) {
  const Space space = MakeSpace(ParseCandidates("int8,int16,mx6"), {}, {}, std::nullopt);
  EXPECT_EQ(space.base.activations, "int16");
  EXPECT_EQ(space.base.placement, plan::Placement::kQdq);
  plan::QuantConfig bf16 = plan::ConfigByName("BF16");
  EXPECT_EQ(MakeSpace(ParseCandidates("mx6"), {}, {}, bf16).base.weights, "bf16");
}

TEST(PartConfig, QuantizesOneSideOnly) {
  const Space space = MakeSpace({}, ParseCandidates("INT8"), ParseCandidates("mx9"), std::nullopt);
  const plan::QuantConfig weights = PartConfig(space, space.parts[0]);
  EXPECT_EQ(weights.weights, "int8");
  EXPECT_EQ(weights.activations, "none");
  const plan::QuantConfig activations = PartConfig(space, space.parts[1]);
  EXPECT_EQ(activations.weights, "none");
  EXPECT_EQ(activations.activations, "mx9");
}

TEST(RuleSettings, SayWhatDiffersFromTheBase) {
  const Space space = MakeSpace(ParseCandidates("mx9,MATMUL_NBITS"), {}, {}, std::nullopt);
  EXPECT_THAT(RuleSettings(space, space.combinations[0]),
              testing::UnorderedElementsAre(Pair("activations", "mx9"), Pair("weights", "mx9")));
  EXPECT_THAT(
      RuleSettings(space, space.combinations[1]),
      testing::IsSupersetOf({Pair(std::string("weights"), std::string("int4")),
                             Pair(std::string("weight_granularity"), std::string("per_block"))}));
}

// A configuration whose settings differ from those of every format and preset.
plan::QuantConfig Particular() {
  plan::QuantConfig base = plan::ConfigByName("A16W8");
  for (const char* setting : {"activation_range=min_max", "activation_symmetric=false",
                              "weight_range=mse", "integer_kernels=vnni", "placement=all"}) {
    plan::ApplySetting(base, setting);
  }
  base.rules.push_back(plan::ParseRule("names=stem: weights=int16"));
  base.rules.push_back(plan::ParseRule("tensors=logits: activations=bf16"));
  return base;
}

TEST(MakeVariantSpace, AVariantChangesWhatItNamesAndNothingElse) {
  const plan::QuantConfig base = Particular();
  const std::vector<Settings> changes{ParseSettings("activations=int8, weights=int4")};
  const Space space = MakeVariantSpace(base, changes);
  EXPECT_EQ(space.base, base);
  EXPECT_THAT(space.combinations, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(RuleSettings(space, space.combinations[0]), testing::IsEmpty());
  EXPECT_THAT(RuleSettings(space, space.combinations[1]),
              ElementsAre(Pair("activations", "int8"), Pair("weights", "int4")));
  // "int8" is the format, not the preset INT8, whose activations are uint8.
  plan::QuantConfig lowered = base;
  lowered.activations = "int8";
  lowered.weights = "int4";
  EXPECT_EQ(space.parts[1].candidate.config, lowered);
  plan::QuantConfig without_tables = base;  // no choice is about them
  without_tables.embeddings = "none";
  EXPECT_EQ(PartConfig(space, space.parts[0]), without_tables);
}

TEST(MakeVariantSpace, RulesForTensorsCountMoreThanAVariant) {
  const std::vector<Settings> changes{ParseSettings("activations=int8")};
  const Space space = MakeVariantSpace(Particular(), changes);
  const plan::QuantConfig config = PartConfig(space, space.parts[1]);
  ASSERT_EQ(config.rules.size(), 3);
  EXPECT_THAT(config.rules[0].names, ElementsAre("stem"));
  EXPECT_THAT(config.rules[1].settings, ElementsAre(Pair("activations", "int8")));
  EXPECT_THAT(config.rules[2].tensors, ElementsAre("logits"));
}

TEST(MakeVariantSpace, RefusesWhatNoRuleCanSay) {
  const auto error = [](const char* text) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] {
      const std::vector<Settings> changes{ParseSettings(text)};
      MakeVariantSpace(Particular(), changes);
    });
  };
  EXPECT_THAT(error("placement=all"), HasSubstr("whole model"));
  EXPECT_THAT(error("activation=int8"), HasSubstr("did you mean 'activations'"));
  EXPECT_THAT(error("weights"), HasSubstr("key=value"));
  EXPECT_THAT(error(""), HasSubstr("says nothing"));
}

}  // namespace
}  // namespace bitpress::search
