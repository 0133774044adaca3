// From the wish to the decision: walks the model and gives every tensor its row in the plan. Pure:
// no file, no inference.
#pragma once

#include <string>

#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Decides for every activation, weight and bias of the compute operators (and, with placement all,
// for every float activation around every operator) what becomes of it; what stays float has its
// reason. `model` should be prepared (constants folded, shapes inferred); `model_name` is noted in
// the plan for people. Throws Error(kUnsupported) if the operator set has no operator for the
// format of the activations, and Error(kInvalidArgument) if an exclusion matches nothing in the
// model, with the nearest name.
QuantPlan MakePlan(const QuantConfig& config, const graph::Model& model, std::string model_name);

}  // namespace bitpress::plan
