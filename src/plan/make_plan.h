// The step from the request to the decision: every tensor of a model gets its row in the plan.
// Tasks call it on a prepared model. Pure: no file, no inference.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Makes a plan with a row for every activation, weight and bias of the compute operators. With
// placement all, every float activation around every operator has a row too. A row that stays float
// has its reason. `model` should be prepared (constants folded, shapes inferred). `model_name` is
// noted in the plan for people. Throws Error(kUnsupported) if the operator set has no operator for
// the format of the activations. Throws Error(kInvalidArgument) with the nearest name if an
// exclusion matches nothing in the model. Words of optional rules that match nothing are added to
// `unmatched`, if it is given.
QuantPlan MakePlan(const QuantConfig& config, const graph::Model& model, std::string model_name,
                   std::vector<std::string>* unmatched = nullptr);

}  // namespace bitpress::plan
