// The row of a bias that a layer got after planning. Pure.
#pragma once

#include <string>

#include "plan/quant_plan.h"

namespace bitpress::plan {

// Puts a row behind that of the weight of the same node: an int32 where the bias is added to
// products of integers, as MakePlan has it; else in the format that the plan's other biases have,
// or float. REQUIRES: the plan has a row for input 1 of the node.
void AddBiasRow(QuantPlan& plan, const std::string& value, const TensorUse& use);

}  // namespace bitpress::plan
