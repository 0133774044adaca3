// Helpers of the tests of plan/, weights/ and emit/. Not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "graph/clean_up.h"
#include "graph/model.h"
#include "plan/make_plan.h"

namespace bitpress::plan {

// Returns a prepared model of tests/data/plan/ (written by tools/make_plan_test_models.py).
inline graph::Model LoadModel(const std::string& name) {
  graph::Model model =
      graph::Model::Load(std::string(BITPRESS_SOURCE_DIR) + "/tests/data/plan/" + name);
  graph::LiftBodyConstants(model);
  model.InferShapes();
  return model;
}

// Returns the plan for a configuration and some "key=value" settings.
inline QuantPlan PlanFor(const graph::Model& model, const std::string& config,
                         const std::vector<std::string>& settings = {},
                         const std::string& model_name = "test") {
  QuantConfig request = ConfigByName(config);
  for (const std::string& setting : settings) ApplySetting(request, setting);
  return MakePlan(request, model, model_name);
}

// Returns the rows of a value.
inline std::vector<TensorPlan> RowsOf(const QuantPlan& plan, const std::string& value) {
  std::vector<TensorPlan> rows;
  std::ranges::copy_if(plan.tensors, std::back_inserter(rows),
                       [&](const TensorPlan& row) { return row.value == value; });
  return rows;
}

// Returns the only row of a value.
inline TensorPlan RowOf(const QuantPlan& plan, const std::string& value) {
  const std::vector<TensorPlan> rows = RowsOf(plan, value);
  EXPECT_EQ(rows.size(), 1u) << value;
  return rows.empty() ? TensorPlan() : rows.front();
}

}  // namespace bitpress::plan
