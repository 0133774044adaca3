// The int8 weights that must be chosen so that no pair sum of their products saturates. A kernel of
// ONNX Runtime multiplies them with activations as uint8 (ops/integer_kernels.h). Planning marks
// their rows here. Pure.
#pragma once

#include <map>
#include <string>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Sets IntegerTreatment::is_pair_safe of the weight rows that a saturating kernel reads, if the
// configuration asks for it (IntegerKernels::kSafe). Leaves rows alone that cannot saturate.
void MarkPairSafe(QuantPlan& plan, const graph::Model& model, const NodeRules& rules,
                  const NodeIndex& nodes);

// Returns whether a session on x86 multiplies the codes of an activation as uint8: what is uint8,
// and int8 with a fixed scale, whose QuantizeLinear and DequantizeLinear ONNX Runtime rewrites for
// uint8 when it loads the model.
bool IsMultipliedAsBytes(const TensorPlan& activation);

// Returns the rows of the activations that the pair-safe weights of a plan are multiplied with, by
// the key of the node that multiplies. The plan must outlive them.
std::map<std::string, const TensorPlan*> ActivationsOfNodes(const QuantPlan& plan);

}  // namespace bitpress::plan
