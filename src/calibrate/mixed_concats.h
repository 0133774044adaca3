// Values that a Concat makes of parts of different sizes, such as boxes in pixels beside scores
// from 0 to 1. With one scale for all, the smaller parts become zeros.
#pragma once

#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// Makes such integer activations of a plan with placement `all` float, with a reason: there each
// value has a quantizer of its own, and its parts have theirs. With placement qdq, operators on
// integers need the value, and the guard decides.
void LeaveMixedConcats(plan::ResolvedPlan& resolved, const graph::Model& model,
                       const CalibrationTable& table);

}  // namespace bitpress::calibrate
