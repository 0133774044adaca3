#include "search/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace bitpress::search {
namespace {

std::vector<std::vector<Option>> RandomItems(size_t num_items, size_t num_options, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int> number(0, 30);
  std::vector<std::vector<Option>> items(num_items);
  for (auto& options : items) {
    for (size_t i = 0; i < num_options; ++i) {
      options.push_back({static_cast<double>(number(random)), static_cast<double>(number(random))});
    }
  }
  return items;
}

// Returns every combination, by brute force.
std::vector<Option> AllCombinations(const std::vector<std::vector<Option>>& items) {
  std::vector<Option> sums{{}};
  for (const auto& options : items) {
    std::vector<Option> longer;
    for (const Option& sum : sums) {
      for (const Option& option : options) {
        longer.push_back({sum.cost + option.cost, sum.loss + option.loss});
      }
    }
    sums = std::move(longer);
  }
  return sums;
}

TEST(FindFront, IsWhatBruteForceFinds) {
  for (int seed = 0; seed < 50; ++seed) {
    const auto items = RandomItems(5, 4, seed);
    const Front front = FindFront(items);
    EXPECT_TRUE(front.is_exact);
    const std::vector<Option> all = AllCombinations(items);
    for (const Option& sum : all) {
      // A point of the front is at least as good.
      EXPECT_TRUE(std::ranges::any_of(front.points, [&](const FrontPoint& point) {
        return point.cost <= sum.cost && point.loss <= sum.loss;
      }));
    }
    for (size_t i = 0; i < front.points.size(); ++i) {
      const FrontPoint& point = front.points[i];
      double cost = 0, loss = 0;
      for (size_t item = 0; item < items.size(); ++item) {
        cost += items[item][point.choice[item]].cost;
        loss += items[item][point.choice[item]].loss;
      }
      EXPECT_EQ(cost, point.cost);
      EXPECT_EQ(loss, point.loss);
      if (i > 0) {
        EXPECT_GT(point.cost, front.points[i - 1].cost);
        EXPECT_LT(point.loss, front.points[i - 1].loss);
      }
    }
  }
}

TEST(FindFront, WithALimitStaysNearTheBest) {
  const auto items = RandomItems(12, 5, 7);
  const Front exact = FindFront(items);
  const Front limited = FindFront(items, 10);
  ASSERT_TRUE(exact.is_exact);
  ASSERT_FALSE(limited.is_exact);
  EXPECT_LE(limited.points.size(), 11);
  EXPECT_EQ(limited.points.front().cost, exact.points.front().cost);
  EXPECT_EQ(limited.points.back().loss, exact.points.back().loss);
}

TEST(FindFront, OfNothingIsOnePoint) {
  const Front front = FindFront({});
  ASSERT_EQ(front.points.size(), 1);
  EXPECT_EQ(front.points[0].cost, 0);
}

TEST(Thin, KeepsTheEnds) {
  std::vector<FrontPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({double(i), double(1000 - i), {}});
  const std::vector<FrontPoint> thin = Thin(points, 11);
  ASSERT_LE(thin.size(), 11);
  ASSERT_GE(thin.size(), 10);
  EXPECT_EQ(thin.front().cost, 0);
  EXPECT_EQ(thin.back().cost, 999);
  for (size_t i = 1; i < thin.size(); ++i) EXPECT_LE(thin[i].cost - thin[i - 1].cost, 110);
}

TEST(Thin, OfFewPointsKeepsAll) { EXPECT_EQ(Thin({{1, 2, {}}, {2, 1, {}}}, 5).size(), 2); }

}  // namespace
}  // namespace bitpress::search
