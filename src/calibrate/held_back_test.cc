#include "calibrate/held_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bitpress::calibrate {
namespace {

plan::TensorPlan Row(const std::string& value) {
  plan::TensorPlan row;
  row.value = value;
  row.format = "int8";
  row.integer.emplace();
  row.uses = {{"node of " + value, "Add", 0}};
  return row;
}

std::vector<float> Ramp(float most) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = most * (static_cast<float>(i) / 500.0F - 1);
  }
  return values;
}

CalibrationTable TableOf(float x, float y) {
  CalibrationTable table;
  table.num_samples = 1;
  table.tensors["x"].Add(Ramp(x));
  table.tensors["y"].Add(Ramp(y));
  return table;
}

HeldBackReport Compare(CalibrationTable others, CalibrationTable held_back) {
  plan::QuantPlan plan;
  plan.tensors = {Row("x"), Row("y")};
  CalibrationTable all = others;
  all.Merge(held_back);
  return CompareHeldBack(plan, all, {std::move(others), std::move(held_back)});
}

TEST(HeldBack, NamesTheValueThatLeavesTheRangeOfTheOthers) {
  const HeldBackReport report = Compare(TableOf(1, 1), TableOf(1, 4));
  EXPECT_EQ(report.num_held_back, 1U);
  EXPECT_EQ(report.num_samples, 2U);
  EXPECT_EQ(report.num_values, 2U);
  ASSERT_EQ(report.values.size(), 1U);
  EXPECT_EQ(report.values[0].value, "y");
  EXPECT_NEAR(report.values[0].outside_share, 0.75, 0.01);
  EXPECT_GT(report.values[0].lost_db, 20);
}

TEST(HeldBack, SaysNothingOfSmallerOrSlightlyLargerValues) {
  EXPECT_TRUE(Compare(TableOf(1, 1), TableOf(1, 0.1F)).values.empty());
  EXPECT_TRUE(Compare(TableOf(1, 1), TableOf(1, 1.01F)).values.empty());
}

}  // namespace
}  // namespace bitpress::calibrate
