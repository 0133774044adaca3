// Which int8 weights must be chosen so that no pair sum of their products saturates: those that a
// kernel of ONNX Runtime multiplies with uint8 activations (ops/integer_kernels.h). Pure.
#pragma once

#include <map>
#include <string>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Sets IntegerTreatment::is_pair_safe of the weight rows that a saturating kernel reads, where the
// configuration wants it (IntegerKernels::kSafe). Leaves rows alone that cannot saturate.
void MarkPairSafe(QuantPlan& plan, const graph::Model& model, const NodeRules& rules,
                  const NodeIndex& nodes);

// The activations that the pair-safe weights of a plan are multiplied with, as rows of the plan by
// the key of the node that multiplies.
std::map<std::string, const TensorPlan*> ActivationsOfNodes(const QuantPlan& plan);

}  // namespace bitpress::plan
