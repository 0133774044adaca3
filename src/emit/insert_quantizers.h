// Pass insert-quantizers: puts the operators that quantize activations into the model, as the plan
// says. Weights get none.
#pragma once

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::emit {

// For each quantized activation of the plan one operator (for BF16 and FP16 in Quark's spelling: a
// Q/DQ pair) behind its producer, giving `<value>_quantized`, which the uses of that row then read;
// a graph output keeps its name and the operator reads `<value>_float`. Integer rows get
// QuantizeLinear and DequantizeLinear with their scale and zero point; those without one stay
// float. Returns whether anything was inserted; what is there already (a second run) is left alone.
// Throws Error(kInvalidArgument) if the plan does not fit (plan::CheckFits).
bool InsertQuantizers(graph::Model& model, const plan::ResolvedPlan& resolved);

}  // namespace bitpress::emit
