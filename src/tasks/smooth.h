// SmoothQuant with the statistics that it follows from: a part of the task `quantize`.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "base/progress.h"
#include "calibrate/calibration_table.h"
#include "data/source.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "rewrite/smooth.h"

namespace bitpress::tasks {

struct SmoothTaskOptions {
  // The share of an activation's range that moves into the weights; nothing: the best for each.
  std::optional<double> alpha = 0.5;
  std::string model_name;  // for people
  data::SampleSpec samples;
  std::filesystem::path calibration;  // the file that the table is of, for messages
  bool may_insert = true;             // a Mul where nothing before an activation can take factors
  size_t num_threads = 0;             // 0: one per core
  ProgressSink progress;              // may be empty
};

// Smooths the model, with channels from `table` or, without one, from the samples. A table is of
// the model before; afterwards it is of the smoothed one, where values that were divided have
// extremes only. Throws Error(kInvalidArgument) where neither knows the channels.
rewrite::SmoothReport SmoothModel(graph::Model& model, const SmoothTaskOptions& options,
                                  std::optional<calibrate::CalibrationTable>& table);

// Gives the rows of values that were divided, and of those that share their scales, the range from
// their extremes: nothing more is known of them in such a table.
void UseExtremes(plan::QuantPlan& plan, const rewrite::SmoothReport& report);

}  // namespace bitpress::tasks
