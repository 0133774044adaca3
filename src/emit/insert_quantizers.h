// Inserts the operators that quantize activations, as the plan says (pass insert-quantizers), and
// those weights that quantize_weights.h leaves to operators. ApplyPlan runs it on every model.
#pragma once

#include <map>
#include <optional>

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::emit {

// Inserts one operator behind the producer of each quantized activation of the plan. For BF16 and
// FP16 in Quark's spelling it is a Q/DQ pair. The operator gives `<value>_quantized`, and the uses
// in that row of the plan read it. A graph output keeps its name, and the operator reads
// `<value>_float`. Integer rows get QuantizeLinear and DequantizeLinear with their scale and zero
// point. Integer rows without a scale stay float.
//
// Does the same for the rows of `weights`, which have the given scales.
//
// Returns whether anything was inserted. Leaves the operators of an earlier run alone. Throws
// Error(kInvalidArgument) if the plan does not fit (plan::CheckFits).
bool InsertQuantizers(graph::Model& model, const plan::ResolvedPlan& resolved,
                      const std::map<const plan::TensorPlan*, std::optional<float>>& weights = {});

}  // namespace bitpress::emit
