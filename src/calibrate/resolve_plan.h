// All that a plan leaves to the calibration: scales, the codes of channels, and the weights that
// become uint8.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/channel_codes.h"
#include "plan/qparams_table.h"
#include "plan/quant_plan.h"
#include "weights/unsigned_weights.h"

namespace bitpress::calibrate {

// What calibration adds to a plan, as transform::ApplyOptions take it.
struct Resolved {
  plan::QParamsTable params;
  plan::ChannelCodesTable channels;
  plan::WeightQParamsTable weight_params;
  // Activations that stay float, with the reason, and weights that become uint8.
  std::vector<std::pair<std::string, std::string>> left_float;
  std::vector<weights::UnsignedWeight> unsigned_weights;
};

// Resolves all that a plan leaves to the calibration; rows change where that decides formats.
// Throws Error(kInvalidArgument) where `table` lacks a value.
Resolved ResolvePlan(plan::QuantPlan& plan, const graph::Model& model,
                     const CalibrationTable& table, ThreadPool& pool);

}  // namespace bitpress::calibrate
