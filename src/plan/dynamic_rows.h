// The rows of nodes that compute on dynamic integers, whose scales are computed at every inference:
// MatMul, Gemm and, if asked for, Conv with a constant weight, and LSTM. MakePlan asks here first.
// Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/plan_rows.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Returns the row of one input. Returns nothing if the configuration does not ask for a dynamic
// node, or if the node's operator has no dynamic form.
std::optional<TensorPlan> DynamicRow(const graph::Model& model, const NodeRules& rules,
                                     const RowMaker& rows, const graph::Node& node, size_t input);

// Returns whether the node is a convolution that `dynamic_rows` leaves float, because ONNX Runtime
// computes ConvInteger many times more slowly. `dynamic` asks for it.
bool IsFloatConvolution(const NodeRules& rules, const graph::Node& node);

// Returns the number of Conv nodes of a plan that compute on dynamic integers. ONNX Runtime
// computes them much more slowly than float ones (docs/presets.md), so that callers tell the user.
size_t NumDynamicConvolutions(const QuantPlan& plan);

}  // namespace bitpress::plan
