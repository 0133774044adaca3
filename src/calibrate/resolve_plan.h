// The step from a plan to a resolved plan: everything that a plan leaves to the calibration is
// decided here, and nowhere else.
#pragma once

#include "base/thread_pool.h"
#include "calibrate/calibration_table.h"
#include "calibrate/guard.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// Chooses the scales of activations and caches, those that the guard leaves float, the codes of
// their channels, and the weights that become uint8. Rows without usable statistics become float
// rows, and say why. `model` is the float model that the plan is of. Without `guard` nothing is
// guarded, whatever the configuration says. Throws Error(kInvalidArgument) naming a value that
// `table` lacks.
plan::ResolvedPlan ResolvePlan(plan::QuantPlan plan, const graph::Model& model,
                               const CalibrationTable& table, ThreadPool& pool,
                               const GuardOptions* guard = nullptr);

}  // namespace bitpress::calibrate
