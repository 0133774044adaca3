// From the statistics of a model's activations to the scale and zero point of each that the plan
// makes an integer. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/calibration_table.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "plan/channel_codes.h"
#include "plan/quant_plan.h"

namespace bitpress::calibrate {

struct ResolvedParams {
  std::map<std::string, formats::QParams> params;  // by value name
  // Values that stay float, with the reason: "no value was ever seen", "NaN in 3 of 64 elements".
  std::vector<std::pair<std::string, std::string>> left_float;
};

// Whether the plan has activations whose scale follows from statistics, and which.
std::vector<std::string> ValuesToCalibrate(const plan::QuantPlan& plan);

// Fills in the scales of the plan's scaled rows. A row without usable statistics becomes a float
// one; gives those, with their reasons. Throws as ResolveParams.
std::vector<std::pair<std::string, std::string>> ResolveFloatScales(plan::QuantPlan& plan,
                                                                    const CalibrationTable& table);

// The activations that a kernel which can saturate would multiply, whatever the configuration, with
// the axis of their channels: what pair-safe weights are chosen for.
std::map<std::string, int64_t> ChannelsOfProducts(const graph::Model& model);

// The activations whose channels pair-safe weights of the plan are chosen for, with the axis of the
// channels. `model` is the float model that the plan is of.
std::map<std::string, int64_t> ChannelsToCalibrate(const plan::QuantPlan& plan,
                                                   const graph::Model& model);

// Returns what those channels hold, with the parameters that the activations got: from slices where
// the table has them, else only the largest code of all.
plan::ChannelCodesTable ResolveChannels(const plan::QuantPlan& plan, const graph::Model& model,
                                        const CalibrationTable& table,
                                        const std::map<std::string, formats::QParams>& params);

// Values that share parameters are one distribution. If one of them has nothing to choose a range
// from, all of them stay float. Throws Error(kInvalidArgument) naming a value that the table does
// not have, and saying how to get it.
ResolvedParams ResolveParams(const plan::QuantPlan& plan, const CalibrationTable& table);

}  // namespace bitpress::calibrate
