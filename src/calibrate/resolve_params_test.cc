#include "calibrate/resolve_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace bitpress::calibrate {
namespace {

using plan::ScaleKey;
using testing::ElementsAre;
using testing::Key;

plan::TensorPlan Row(const std::string& value, const std::string& format,
                     const std::string& shares = "") {
  plan::TensorPlan row;
  row.value = value;
  row.format = format;
  row.integer.emplace();
  row.integer->shares = shares;
  row.uses = {{"node of " + value, "Add", 0}};
  return row;
}

CalibrationTable TableOf(const std::vector<std::pair<std::string, std::vector<float>>>& values) {
  CalibrationTable table;
  for (const auto& [name, elements] : values) table.tensors[name].Add(elements);
  return table;
}

TEST(ResolveParams, AValueInTwoFormatsHasTwoScales) {
  plan::QuantPlan plan;
  plan.tensors = {Row("x", "int8"), Row("x", "int16")};
  const ResolvedParams resolved = ResolveParams(plan, TableOf({{"x", {-4, 4}}}));
  EXPECT_FLOAT_EQ(resolved.scales.at({"x", "int8"}).scale, 4.0F / 127);
  EXPECT_FLOAT_EQ(resolved.scales.at({"x", "int16"}).scale, 4.0F / 32767);
}

TEST(ResolveParams, OneScaleForAGroupInEachFormat) {
  plan::QuantPlan plan;
  plan.tensors = {Row("x", "int8"), Row("x", "int16"), Row("y", "int8", "x"),
                  Row("y", "int16", "x")};
  const ResolvedParams resolved = ResolveParams(plan, TableOf({{"x", {-1, 1}}, {"y", {-4, 4}}}));
  ASSERT_EQ(resolved.scales.size(), 4U);
  for (const char* value : {"x", "y"}) {
    EXPECT_FLOAT_EQ(resolved.scales.at({value, "int8"}).scale, 4.0F / 127) << value;
    EXPECT_FLOAT_EQ(resolved.scales.at({value, "int16"}).scale, 4.0F / 32767) << value;
  }
}

TEST(ResolveParams, AFormatThatTheSharedValueHasNotIsAGroupOfItsOwn) {
  plan::QuantPlan plan;
  plan.tensors = {Row("x", "int16"), Row("y", "int8", "x")};
  const ResolvedParams resolved = ResolveParams(plan, TableOf({{"x", {-1, 1}}, {"y", {-4, 4}}}));
  EXPECT_FLOAT_EQ(resolved.scales.at({"x", "int16"}).scale, 1.0F / 32767);
  EXPECT_FLOAT_EQ(resolved.scales.at({"y", "int8"}).scale, 4.0F / 127);
}

TEST(ResolveParams, NothingToChooseARangeFrom) {
  plan::QuantPlan plan;
  plan.tensors = {Row("x", "int8"), Row("y", "int8", "x"), Row("z", "int8")};
  const ResolvedParams resolved =
      ResolveParams(plan, TableOf({{"x", {1}}, {"y", {std::nanf("")}}, {"z", {1}}}));
  EXPECT_THAT(resolved.scales, ElementsAre(Key(ScaleKey{"z", "int8"})));
  EXPECT_THAT(resolved.left_float, ElementsAre(Key("x"), Key("y")));
}

TEST(ResolveParams, WhatCannotBeResolved) {
  plan::QuantPlan plan;
  plan.tensors = {Row("y", "int8", "x")};
  EXPECT_THROW(ResolveParams(plan, TableOf({{"y", {1}}})), Error);  // no row of x
  plan.tensors = {Row("x", "int8")};
  EXPECT_THROW(ResolveParams(plan, TableOf({{"y", {1}}})), Error);  // no statistics
}

}  // namespace
}  // namespace bitpress::calibrate
