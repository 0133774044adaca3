#include "tasks/smooth.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "calibrate/calibrate.h"
#include "plan/resolved_plan.h"

namespace bitpress::tasks {
namespace {

// Returns the channels along the last axis of the values that were finite throughout.
rewrite::ChannelTable ChannelsOf(const calibrate::CalibrationTable& table) {
  rewrite::ChannelTable channels;
  for (const auto& [value, statistics] : table.tensors) {
    const bool is_finite = statistics.num_finite() == statistics.num_elements();
    const auto& slices = statistics.axis_statistics();
    if (!is_finite || statistics.is_empty() || !slices || slices->axis != -1) continue;
    for (const calibrate::SliceStatistics& slice : slices->slices) {
      channels[value].push_back({slice.AbsMax(),
                                 slice.sum_of_squares.Mean(std::max<uint64_t>(1, slice.num_finite)),
                                 slice.num_finite});
    }
  }
  return channels;
}

// Gathers statistics of each channel of the activations that can be smoothed, in one pass.
calibrate::CalibrationTable GatherChannels(const graph::Model& model,
                                           const SmoothTaskOptions& options) {
  const std::vector<std::string> values = rewrite::ValuesToSmooth(model);
  if (values.empty()) return {};
  calibrate::CalibrateOptions calibration;
  for (const std::string& value : values) calibration.axes[value] = -1;
  return GatherStatistics(model, options.model_name, values, options, std::move(calibration)).table;
}

}  // namespace

rewrite::SmoothReport SmoothModel(graph::Model& model, const SmoothTaskOptions& options,
                                  std::optional<calibrate::CalibrationTable>& table) {
  if (!table && !options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "smooth_quant follows from the channels of activations: give samples ({}; for photos also "
         "{}), or a file of `bitpress calibrate --per-channel` ({})",
         OptionName("data"), OptionName("image"), OptionName("calibration"));
  }
  const rewrite::ChannelTable channels =
      ChannelsOf(table ? *table : GatherChannels(model, options));
  if (table && channels.empty() && !rewrite::ValuesToSmooth(model).empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "calibration '{}' knows no channels, which smooth_quant follows from; gather it anew",
         PathText(options.calibration));
  }
  rewrite::SmoothReport report =
      rewrite::Smooth(model, channels, {.alpha = options.alpha, .may_insert = options.may_insert});
  if (!table) return report;
  for (const rewrite::SmoothedActivation& smoothed : report.smoothed) {
    table->tensors[smoothed.result] =
        calibrate::Divided(table->tensors.at(smoothed.value), smoothed.factors);
    for (const std::string& value : smoothed.passed) table->tensors.erase(value);
  }
  return report;
}

void UseExtremes(plan::QuantPlan& plan, const rewrite::SmoothReport& report) {
  std::set<std::string> divided;
  for (const rewrite::SmoothedActivation& smoothed : report.smoothed) {
    divided.insert(smoothed.result);
  }
  std::set<std::string> roots;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.integer || !divided.contains(row.value)) continue;
    roots.insert(plan::ScaleRootOf(row));
  }
  for (plan::TensorPlan& row : plan.tensors) {
    if (row.role != plan::Role::kActivation || row.is_dynamic()) continue;
    if (row.integer && roots.contains(row.value)) row.integer->range = {};
    if (row.scaled && divided.contains(row.value)) row.scaled->range = {};
  }
}

}  // namespace bitpress::tasks
