// Rows of nodes that compute on integers whose scales follow from each tensor when it is there:
// MatMul, Gemm and Conv with a constant weight, and LSTM. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/plan_rows.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// What becomes of one input; nothing where the node is not asked to be dynamic, or is of no type
// that has a dynamic form.
std::optional<TensorPlan> DynamicRow(const graph::Model& model, const NodeRules& rules,
                                     const RowMaker& rows, const graph::Node& node, size_t input);

}  // namespace bitpress::plan
