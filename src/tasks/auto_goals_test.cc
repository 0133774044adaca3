#include "tasks/auto_goals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/test_support.h"

namespace bitpress::tasks {
namespace {

TrialFigures Trial(double bytes, double time, double loss = 0) {
  return {.loss = loss, .time = time, .bytes = bytes, .byte_share = bytes / 1000};
}

// Returns the bytes of the trial that is chosen, which the order of the trials must not change.
double BytesChosen(std::vector<TrialFigures> trials, Want want = Want::kBalanced) {
  const Goals goals = GoalsOf(want, {}, 0.01);
  const auto less = [](const auto& a, const auto& b) { return a.bytes < b.bytes; };
  std::ranges::sort(trials, less);
  const double bytes = trials[BestOf(trials, goals)].bytes;
  while (std::ranges::next_permutation(trials, less).found) {
    EXPECT_EQ(trials[BestOf(trials, goals)].bytes, bytes);
  }
  return bytes;
}

TEST(AutoGoals, BalancedTakesTheSmallestOrOneNearlyAsSmallThatIsClearlyFaster) {
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(104, 0.95)}), 100);
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(104, 0.8)}), 104);
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(106, 0.3)}), 100);
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(103, 0.8), Trial(104, 0.7)}), 104);
  // Each is nearly as large as the next one and clearly slower, the first and the last are not.
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(104, 0.8), Trial(108, 0.6)}), 104);
  EXPECT_EQ(BytesChosen({Trial(100, 1), Trial(104, 0.8, 0.02), Trial(108, 0.6)}), 100);
  EXPECT_EQ(BytesChosen({Trial(100, 1.2), Trial(104, 0.8)}), 104);
}

TEST(AutoGoals, OtherPreferencesTakeTheirBest) {
  const std::vector<TrialFigures> trials = {Trial(100, 1, 0.005), Trial(104, 0.8, 0.008),
                                            Trial(120, 0.5, 0.009), Trial(300, 1, 0),
                                            Trial(50, 0.4, 0.02)};
  EXPECT_EQ(BytesChosen(trials, Want::kSmaller), 100);
  EXPECT_EQ(BytesChosen(trials, Want::kFaster), 120);
  EXPECT_EQ(BytesChosen(trials, Want::kClosest), 300);
  EXPECT_EQ(BestOf(trials, GoalsOf(Want::kFirst, {}, 0.01)), 0);
}

TEST(AutoGoals, OfEqualLossesTheClosestOutputsDecide) {
  std::vector<TrialFigures> trials = {Trial(100, 1), Trial(200, 1), Trial(300, 1, 0.001)};
  EXPECT_EQ(BytesChosen(trials, Want::kClosest), 100);
  trials[0].sqnr_db = 30;
  trials[1].sqnr_db = 50;
  trials[2].sqnr_db = 90;
  EXPECT_EQ(BytesChosen(trials, Want::kClosest), 200);
  EXPECT_EQ(BytesChosen(trials, Want::kSmaller), 100);
}

TEST(AutoGoals, ALimitIsGivenOnce) {
  for (const char* const text : {"loss<=1%,loss<=2%", "bytes<=3MB,bytes<=2MB", "time<=1,time<=1"}) {
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { ParseLimits(text); }),
                testing::HasSubstr("is given twice"));
  }
  EXPECT_TRUE(ParseLimits("bytes<=3MB,bytes<=50%").byte_share);
}

TEST(AutoGoals, WithoutOneThatKeepsTheLimitsTheNearestIsTaken) {
  EXPECT_EQ(BytesChosen({Trial(100, 1, 0.03), Trial(200, 1, 0.02)}), 200);
  EXPECT_EQ(BytesChosen({Trial(100, 1, 0.03), Trial(200, 1.4, 0)}), 200);
  EXPECT_EQ(BytesChosen({Trial(100, 1.5), Trial(200, 1.4)}), 200);
}

TEST(AutoGoals, NamesTheLimitsThatAreMissed) {
  const Limits limits = ParseLimits("bytes<=50%,time<=0.9,loss<=1%");
  EXPECT_EQ(LimitsMissed(Trial(500, 0.9, 0.01), limits), "");
  EXPECT_EQ(LimitsMissed(Trial(501, 1, 0), limits), "bytes, time");
  EXPECT_EQ(LimitsMissed(Trial(100, 0.5, 0.02), limits), "loss");
  EXPECT_EQ(LimitsMissed(Trial(100, 0.5, 0.02), ParseLimits("bytes<=99,time<=1")), "bytes");
}

// Without samples there are no times and no losses.
TEST(AutoGoals, WhatWasNotMeasuredIsNoReason) {
  std::vector<TrialFigures> trials(2);
  trials[0].bytes = 102;
  trials[1].bytes = 100;
  EXPECT_EQ(BestOf(trials, GoalsOf(Want::kBalanced, {}, 0.01)), 1);
  trials[0].time = 0.5;
  EXPECT_EQ(BestOf(trials, GoalsOf(Want::kBalanced, {}, 0.01)), 1);
}

}  // namespace
}  // namespace bitpress::tasks
