// Tests that the pair sums of chosen codes fit, by computing the sums themselves.
#include "weights/pair_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "formats/qparams_search.h"
#include "formats/reference.h"
#include "plan/test_support.h"
#include "weights/integer_weight.h"

namespace bitpress::weights {
namespace {

constexpr int64_t kInputs = 64;
constexpr int64_t kOutputs = 20;

std::vector<float> RandomWeights(float mean, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> weights(kInputs * kOutputs);
  for (float& w : weights) w = normal(random);
  return weights;
}

// Returns the rule of a MatMul's weight [kInputs, kOutputs].
PairRule RuleOf(std::vector<uint8_t> largest = {255}, std::vector<double> costs = {}) {
  return {ops::MatrixSums(std::vector<int64_t>{kInputs, kOutputs}, ops::SummedDim::kSecondLast),
          std::move(largest), std::move(costs)};
}

plan::TensorPlan RowOf(plan::Granularity granularity) {
  plan::TensorPlan row;
  row.value = std::string("w");
  row.role = plan::Role::kWeight;
  row.format = std::string("int8");
  row.integer.emplace().granularity = granularity;
  row.integer->is_pair_safe = true;
  if (granularity == plan::Granularity::kPerAxis) row.axis = 1;
  return row;
}

bool DoAllFit(const PairRule& rule, std::span<const int32_t> codes) {
  for (int64_t sum = 0; sum < rule.sums.num_sums; ++sum) {
    for (int64_t i = 0; i + 1 < rule.sums.length; i += 2) {
      const formats::PairBounds largest{rule.LargestOf(rule.sums.ChannelOf(sum, i)),
                                        rule.LargestOf(rule.sums.ChannelOf(sum, i + 1))};
      if (!formats::FitsPairSum(
              {codes[rule.sums.ElementOf(sum, i)], codes[rule.sums.ElementOf(sum, i + 1)]},
              largest)) {
        return false;
      }
    }
  }
  return true;
}

IntegerWeight MakeWeight(const std::vector<float>& values, const plan::TensorPlan& row,
                         std::vector<PairRule> rules) {
  return {{DataType::kFloat, {kInputs, kOutputs}, std::as_bytes(std::span(values)), nullptr},
          row,
          "MatMul",
          {},
          {},
          std::move(rules)};
}

double SquaredError(const std::vector<float>& x, const Tensor& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += std::pow(double{x[i]} - double{y.values<float>()[i]}, 2);
  }
  return sum;
}

TEST(PairRules, CodesFitAndLoseLessThanOneBit) {
  for (const plan::Granularity granularity :
       {plan::Granularity::kPerAxis, plan::Granularity::kPerTensor}) {
    for (const float mean : {0.0F, 1.0F}) {
      const std::vector<float> values = RandomWeights(mean, 3);
      ThreadPool pool(3);
      WeightStatistics statistics;
      plan::TensorPlan row = RowOf(granularity);
      const IntegerWeight safe = MakeWeight(values, row, {RuleOf()});
      EXPECT_TRUE(DoAllFit(RuleOf(), safe.Codes(pool, statistics)));
      const IntegerWeight free = MakeWeight(values, row, {});
      EXPECT_TRUE(statistics.num_fitted_pairs > 0 || safe.Params(pool) != free.Params(pool));
      EXPECT_FALSE(DoAllFit(RuleOf(), free.Codes(pool, statistics)));
      row.integer->is_reduced = true;
      const IntegerWeight reduced = MakeWeight(values, row, {});
      const double error = SquaredError(values, safe.Simulate(pool, statistics));
      EXPECT_LT(error, SquaredError(values, reduced.Simulate(pool, statistics)));
      EXPECT_GT(error, SquaredError(values, free.Simulate(pool, statistics)));
    }
  }
}

TEST(PairRules, WhatFitsStaysAsItIs) {
  std::vector<float> values = RandomWeights(0, 5);
  // Neighbours of opposite signs never saturate.
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::abs(values[i]) * (i / kOutputs % 2 == 0 ? 1.0F : -1.0F);
  }
  ThreadPool pool(2);
  WeightStatistics statistics;
  const plan::TensorPlan row = RowOf(plan::Granularity::kPerAxis);
  const IntegerWeight safe = MakeWeight(values, row, {RuleOf()});
  const IntegerWeight free = MakeWeight(values, row, {});
  EXPECT_EQ(safe.Params(pool), free.Params(pool));
  EXPECT_EQ(safe.Codes(pool, statistics), free.Codes(pool, statistics));
  EXPECT_EQ(statistics.num_fitted_pairs, 0u);
}

TEST(PairRules, SmallActivationsLeaveMoreCodes) {
  const std::vector<float> values = RandomWeights(0.5F, 7);
  ThreadPool pool(1);
  WeightStatistics any, some, none;
  const plan::TensorPlan row = RowOf(plan::Granularity::kPerAxis);
  const double of_any =
      SquaredError(values, MakeWeight(values, row, {RuleOf({255})}).Simulate(pool, any));
  std::vector<uint8_t> largest(kInputs, 255);
  for (size_t i = 0; i < kInputs; i += 2) largest[i] = 128;
  const IntegerWeight weight = MakeWeight(values, row, {RuleOf(largest)});
  EXPECT_TRUE(DoAllFit(RuleOf(largest), weight.Codes(pool, some)));
  const double of_some = SquaredError(values, weight.Simulate(pool, some));
  const double of_none =
      SquaredError(values, MakeWeight(values, row, {RuleOf({128})}).Simulate(pool, none));
  EXPECT_LT(of_some, of_any);
  EXPECT_LT(of_none, of_some);
  EXPECT_EQ(none.num_fitted_pairs, 0u);  // 128 * (127 + 127) fits
}

TEST(PairRules, SeveralReadersAreAllSatisfied) {
  // The same matrix is read from its other side, as a tied embedding is.
  const std::vector<float> values = RandomWeights(0.5F, 9);
  const PairRule rows = RuleOf();
  const PairRule columns{
      ops::MatrixSums(std::vector<int64_t>{kInputs, kOutputs}, ops::SummedDim::kLast), {255}, {}};
  ThreadPool pool(2);
  WeightStatistics statistics;
  const IntegerWeight weight =
      MakeWeight(values, RowOf(plan::Granularity::kPerTensor), {rows, columns});
  const std::vector<int32_t> codes = weight.Codes(pool, statistics);
  EXPECT_TRUE(DoAllFit(rows, codes));
  EXPECT_TRUE(DoAllFit(columns, codes));
}

// Compares the expected square of each output's error before and after balancing.
TEST(PairRules, ErrorsOfAnOutputCancel) {
  const std::vector<float> values = RandomWeights(0.2F, 13);
  ThreadPool pool(2);
  const PairRule rule = RuleOf();
  std::vector<float> target(values.size());
  std::vector<int32_t> codes(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    target[i] = values[i] * 30;
    codes[i] = std::clamp(static_cast<int32_t>(std::lround(target[i])), -127, 127);
  }
  FitPairs(std::span(&rule, 1), target, codes, pool);
  const auto loss = [&](int64_t sum) {
    double squares = 0, shift = 0;
    for (int64_t i = 0; i < kInputs; ++i) {
      const size_t element = rule.sums.ElementOf(sum, i);
      const double error = codes[element] - double{target[element]};
      squares += error * error;
      shift += error;
    }
    return squares + shift * shift;
  };
  std::vector<double> before;
  for (int64_t sum = 0; sum < kOutputs; ++sum) before.push_back(loss(sum));
  BalanceMeans(rule, target, {-127, 127}, codes, pool);
  EXPECT_TRUE(DoAllFit(rule, codes));
  double all_before = 0, all_after = 0;
  for (int64_t sum = 0; sum < kOutputs; ++sum) {
    EXPECT_LE(loss(sum), before[static_cast<size_t>(sum)] + 1e-9);
    all_before += before[static_cast<size_t>(sum)];
    all_after += loss(sum);
  }
  EXPECT_LT(all_after, 0.95 * all_before);
}

TEST(PairRules, ThreadsDoNotMatter) {
  const std::vector<float> values = RandomWeights(0.3F, 11);
  WeightStatistics statistics;
  ThreadPool one(1), four(4);
  const plan::TensorPlan row = RowOf(plan::Granularity::kPerAxis);
  EXPECT_EQ(MakeWeight(values, row, {RuleOf()}).Codes(one, statistics),
            MakeWeight(values, row, {RuleOf()}).Codes(four, statistics));
}

TEST(PairRules, FollowThePlan) {
  const graph::Model model = plan::LoadModel("convnet.onnx");
  const plan::ChannelCodesTable none;
  for (const auto& [config, is_safe] :
       {std::pair{"INT8", true}, std::pair{"S8S8_AAWS", true}, std::pair{"U16S8_AAWS", false}}) {
    const plan::QuantPlan plan = plan::PlanFor(model, config);
    const PairRules rules(plan, model, none);
    size_t num_safe = 0;
    for (const plan::TensorPlan& row : plan.tensors) {
      if (row.role != plan::Role::kWeight || !row.integer) continue;
      EXPECT_EQ(rules.For(row).empty(), !row.integer->is_pair_safe) << row.value;
      if (row.integer->is_pair_safe) ++num_safe;
      if (row.value == "depthwise_weight") {
        EXPECT_FALSE(row.integer->is_pair_safe);
      }
    }
    EXPECT_EQ(num_safe > 0, is_safe) << config;
  }
}

}  // namespace
}  // namespace bitpress::weights
