// The resolution of a plan with statistics: it gives every activation that the plan quantizes its
// scale and zero point. Pure functions.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

struct ResolvedParams {
  plan::ScaleTable scales;
  // Values that stay float, with the reason, such as "no value was ever seen".
  std::vector<std::pair<std::string, std::string>> left_float;
};

// Returns the activations of the plan whose scale follows from statistics.
std::vector<std::string> ValuesToCalibrate(const plan::QuantPlan& plan);

// Returns whether the plan's scales, or what stays float, follow from sums over whole tensors.
bool NeedsSums(const plan::QuantPlan& plan);

// Fills in the scales of the plan's scaled rows. A row without usable statistics becomes a float
// row. Returns these rows' values, with their reasons. Throws as ResolveParams.
std::vector<std::pair<std::string, std::string>> ResolveFloatScales(plan::QuantPlan& plan,
                                                                    const CalibrationTable& table);

// Returns the activations that a kernel which can saturate would multiply, whatever the
// configuration, with the axis of their channels. Pair-safe weights are chosen for them.
std::map<std::string, int64_t> ChannelsOfProducts(const graph::Model& model);

// Returns the activations for whose channels pair-safe weights of the plan are chosen, with the
// axis of the channels. `model` is the float model that the plan is of.
std::map<std::string, int64_t> ChannelsToCalibrate(const plan::QuantPlan& plan,
                                                   const graph::Model& model);

// Returns the codes of those channels, with the parameters that the activations got. They come from
// slices if the table has them. Else there is only the largest code of all.
plan::ChannelCodesTable ResolveChannels(const plan::QuantPlan& plan, const graph::Model& model,
                                        const CalibrationTable& table,
                                        const plan::ScaleTable& scales);

// Returns a value's statistics. Throws Error(kInvalidArgument) naming a value that the table does
// not have, and saying how to get it.
const TensorStatistics& StatisticsOf(const CalibrationTable& table, const std::string& value);

// Returns the scales of the plan's integer activations. Values that share a scale are one
// distribution in each format. If one of them has nothing to choose a range from, all of them stay
// float. Throws Error(kInvalidArgument) naming a value that the table does not have, and saying how
// to get it.
ResolvedParams ResolveParams(const plan::QuantPlan& plan, const CalibrationTable& table);

}  // namespace bitpress::calibrate
