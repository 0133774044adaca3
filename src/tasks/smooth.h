// SmoothQuant and the gathering of its statistics. The task `quantize` uses it if the configuration
// asks for smoothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "rewrite/smooth.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct SmoothTaskOptions : RunOptions {
  // The share of an activation's range that moves into the weights. Nothing: the best share for
  // each activation.
  std::optional<double> alpha = 0.5;
  std::string model_name;             // for messages
  std::filesystem::path calibration;  // the file of the table, for messages
  bool may_insert = true;             // a Mul, if nothing before an activation can take factors
};

// Smooths the model with channels from `table` or, without a table, from the samples. A table
// describes the model before smoothing. Afterwards it describes the smoothed model, and values that
// were divided have only extremes. Throws Error(kInvalidArgument) if neither table nor samples give
// the channels.
rewrite::SmoothReport SmoothModel(graph::Model& model, const SmoothTaskOptions& options,
                                  std::optional<calibrate::CalibrationTable>& table);

// Sets the range of values that were divided, and of values that share their scales, to their
// extremes. Such a table knows nothing more about them.
void UseExtremes(plan::QuantPlan& plan, const rewrite::SmoothReport& report);

}  // namespace bitpress::tasks
