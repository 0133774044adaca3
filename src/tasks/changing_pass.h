// Finds the pass of the preparation that changes what a model computes.
#pragma once

#include <optional>
#include <string>

#include "plan/quant_plan.h"
#include "tasks/quantize.h"

namespace bitpress::tasks {

// Compares the prepared model, without anything rounded, with the given one on the first samples.
// If it is farther off than the rounding of floats explains, the passes of the preparation are left
// out one at a time until one makes the difference. Returns that pass; nothing if there is no such
// difference, or if no single pass makes it. The model is prepared and run for each pass: use it
// where a quantized model is farther off than its formats explain.
std::optional<ChangingPass> FindChangingPass(const QuantizeOptions& options,
                                             const plan::Rewrites& rewrites);

}  // namespace bitpress::tasks
