#include "evaluate/language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_support.h"

namespace bitpress::evaluate {
namespace {

using testing::HasSubstr;

const float kLog2 = std::log(2.0f);

// Two samples of three tokens, of a vocabulary of four.
Tensor Ids() { return MakeTensor<int64_t>(DataType::kInt64, {2, 3}, {0, 1, 2, 3, 0, 1}); }

// Logits of which each row is `row`.
Tensor Logits(std::vector<float> row) {
  std::vector<float> values;
  for (int i = 0; i < 6; ++i) values.insert(values.end(), row.begin(), row.end());
  return MakeTensor<float>(DataType::kFloat, {2, 3, 4}, values);
}

TEST(LanguageMeterTest, UniformPredictionsHaveThePerplexityOfTheVocabulary) {
  LanguageMeter meter(2);
  meter.Add(Ids(), Logits({5, 5, 5, 5}), nullptr, 2);
  const LanguageReport report = meter.sums().Report();
  EXPECT_EQ(report.num_tokens, 4u) << "the last token of a sample predicts nothing";
  EXPECT_NEAR(report.perplexity, 4, 1e-9);
  EXPECT_FALSE(report.mean_divergence);
  EXPECT_FALSE(report.reference_perplexity);
}

TEST(LanguageMeterTest, TheRowOfATokenPredictsTheNextOne) {
  // Token 1 has half of the probability, and it is the next one of two of four rows.
  LanguageMeter meter(1);
  meter.Add(Ids(), Logits({0, kLog2 + kLog2, 0, 0}), nullptr, 2);
  // p = 4/7 for token 1, 1/7 for the others; next tokens are 1, 2, 0, 1.
  const double wanted = std::exp(-(2 * std::log(4.0 / 7) + 2 * std::log(1.0 / 7)) / 4);
  EXPECT_NEAR(meter.sums().Report().perplexity, wanted, 1e-6);
}

TEST(LanguageMeterTest, DivergenceAndAgreementAreAgainstTheReference) {
  LanguageMeter meter(3);
  Tensor logits = Logits({0, 0, 0, kLog2});
  const Tensor reference = Logits({0, 0, 0, kLog2});
  // Row 0 prefers another token, and is (2, 1, 1, 1) / 5 instead of (1, 1, 1, 2) / 5.
  logits.values<float>()[0] = kLog2;
  logits.values<float>()[3] = 0;
  meter.Add(Ids(), logits, &reference, 2);
  const LanguageReport report = meter.sums().Report();
  const double divergence = 0.2 * std::log(0.5) + 0.4 * std::log(2.0);
  EXPECT_NEAR(*report.mean_divergence, divergence / 4, 1e-6);
  EXPECT_GE(*report.divergence_99, divergence - 1e-6);
  EXPECT_LT(*report.divergence_99, divergence * (1 + 1.0 / 4096));
  EXPECT_DOUBLE_EQ(*report.agreement, 0.75);
  EXPECT_EQ(meter.sums().comparison.num_samples(), 4u);
  EXPECT_FALSE(meter.sums().comparison.is_identical());
}

TEST(LanguageMeterTest, NinetyNinePercentLeavesTheWorstOut) {
  // 200 tokens of which two diverge: 198 are 99 %.
  const Tensor ids = MakeTensor<int64_t>(DataType::kInt64, {1, 201}, std::vector<int64_t>(201, 0));
  Tensor logits = MakeTensor<float>(DataType::kFloat, {1, 201, 2}, std::vector<float>(402, 0));
  const Tensor reference = logits;
  logits.values<float>()[10] = 3;
  logits.values<float>()[20] = 3;
  LanguageMeter meter(2);
  meter.Add(ids, logits, &reference, 1);
  EXPECT_EQ(*meter.sums().Report().divergence_99, 0);
  EXPECT_GT(*meter.sums().Report().mean_divergence, 0);
}

TEST(LanguageMeterTest, OnlyTheFirstSamplesCount) {
  LanguageMeter meter(1);
  meter.Add(Ids(), Logits({0, 0, 0, 0}), nullptr, 1);
  EXPECT_EQ(meter.sums().Report().num_tokens, 2u);
}

TEST(LanguageMeterTest, ResultsDoNotDependOnThreads) {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(std::sin(static_cast<float>(i * i)));
  const Tensor logits = MakeTensor<float>(DataType::kFloat, {2, 3, 4}, values);
  const Tensor reference = Logits({1, 2, 0, 1});
  LanguageMeter one(1), four(4);
  one.Add(Ids(), logits, &reference, 2);
  four.Add(Ids(), logits, &reference, 2);
  EXPECT_EQ(one.sums().Report().perplexity, four.sums().Report().perplexity);
  EXPECT_EQ(one.sums().Report().mean_divergence, four.sums().Report().mean_divergence);
  EXPECT_EQ(one.sums().comparison.SqnrDb(), four.sums().comparison.SqnrDb());
}

TEST(LanguageMeterTest, LogitsAreFoundByTheirShape) {
  const Tensor cache = MakeTensor<float>(DataType::kFloat, {2, 3, 1}, std::vector<float>(6));
  const Tensor classes = MakeTensor<float>(DataType::kFloat, {2, 4}, std::vector<float>(8));
  const std::vector<Tensor> outputs = {cache, classes, Logits({0, 0, 0, 0})};
  const std::vector<std::string> names = {"cache", "classes", "scores"};
  EXPECT_EQ(LanguageMeter::FindLogits(names, outputs, Ids()), 2u);
  EXPECT_FALSE(
      LanguageMeter::FindLogits(std::span(names).first(2), std::span(outputs).first(2), Ids()))
      << "one column is no vocabulary of four";
  const std::vector<Tensor> two = {Logits({0, 0, 0, 0}), Logits({0, 0, 0, 0})};
  EXPECT_FALSE(LanguageMeter::FindLogits(std::vector<std::string>{"hidden", "scores"}, two, Ids()));
  EXPECT_EQ(LanguageMeter::FindLogits(std::vector<std::string>{"hidden", "logits"}, two, Ids()),
            1u);
  const Tensor single = MakeTensor<int64_t>(DataType::kInt64, {6, 1}, {0, 1, 2, 3, 0, 1});
  const std::vector<Tensor> steps = {
      MakeTensor<float>(DataType::kFloat, {6, 1, 4}, std::vector<float>(24))};
  EXPECT_FALSE(LanguageMeter::FindLogits(std::vector<std::string>{"logits"}, steps, single))
      << "nothing is predicted";
}

TEST(LanguageMeterTest, TokensBeyondTheVocabularyAreAnError) {
  LanguageMeter meter(1);
  const Tensor ids = MakeTensor<int64_t>(DataType::kInt64, {2, 3}, {0, 1, 2, 3, 4, 1});
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            meter.Add(ids, Logits({0, 0, 0, 0}), nullptr, 2);
                          }),
              HasSubstr("token 4 is not in the vocabulary of 4"));
}

}  // namespace
}  // namespace bitpress::evaluate
