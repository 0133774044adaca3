// The float model with the weights that a plan gives it: the guard measures with it what they alone
// cost.
#pragma once

#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// Returns a copy of the float model whose readers of quantized weights read the floats that the
// codes mean. They are computed while the model is written, so that memory does not grow with them;
// `pool` must live that long. Rules that codes follow for the sake of a kernel (pair-safe weights)
// do not count here, and biases stay float: both cost little.
graph::Model WithPlannedWeights(const graph::Model& model, const plan::ResolvedPlan& resolved,
                                ThreadPool& pool);

}  // namespace bitpress::calibrate
