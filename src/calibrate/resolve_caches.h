// The scales of key-value caches from the statistics of their heads and channels.
#pragma once

#include <set>
#include <string>

#include "calibrate/calibration_table.h"
#include "plan/quant_plan.h"

namespace bitpress::calibrate {

// Returns the caches whose scales follow from statistics: CalibrateOptions::caches.
std::set<std::string> CachesToCalibrate(const plan::QuantPlan& plan);

// Chooses the scales of those caches. One without usable statistics stays float with the other
// cache of its node, and says why. Throws Error(kInvalidArgument) naming a cache that the table
// lacks, or whose heads and channels it does not tell apart.
void ResolveCaches(plan::QuantPlan& plan, const CalibrationTable& table);

}  // namespace bitpress::calibrate
