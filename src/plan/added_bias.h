// The row of a bias that fine-tuning gave a layer after planning. Pure.
#pragma once

#include <string>

#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Adds the row of bias `value`, a vector, behind the row of the weight that the same node reads.
// The bias is an int32 if it is added to products of integers, as MakePlan has it. Otherwise it
// gets the format of the plan's other biases, or stays float. REQUIRES: the plan has a row for
// input 1 of the node, and `model` has the bias.
void AddBiasRow(QuantPlan& plan, const graph::Model& model, const std::string& value,
                const TensorUse& use);

}  // namespace bitpress::plan
