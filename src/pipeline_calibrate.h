// Calibration files, as the files of the corridor read them. Only for those.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/channel_codes.h"
#include "plan/quant_plan.h"
#include "transform/qparams_table.h"
#include "transform/unsigned_weights.h"

namespace bitpress::pipeline {

// The calibration file, checked to be of the model as it was prepared. Throws Error naming it.
calibrate::CalibrationTable LoadTable(const graph::Model& model, bool is_equalized,
                                      const std::filesystem::path& path);

// What calibration adds to a plan, as transform::ApplyOptions take it.
struct Resolved {
  transform::QParamsTable params;
  plan::ChannelCodesTable channels;
  transform::WeightQParamsTable weight_params;
  // Activations that stay float, with the reason, and weights that become uint8.
  std::vector<std::pair<std::string, std::string>> left_float;
  std::vector<transform::UnsignedWeight> unsigned_weights;
};

// Resolves all that a plan leaves to the calibration; rows change where that decides formats.
// Throws Error(kInvalidArgument) where `table` lacks a value.
Resolved ResolvePlan(plan::QuantPlan& plan, const graph::Model& model,
                     const calibrate::CalibrationTable& table, ThreadPool& pool);

}  // namespace bitpress::pipeline
