// The one loss of a quantized model beside the float one, by the measure that suits its outputs.
// `auto`, `search` and the guard of `quantize` decide by it. Pure functions.
#pragma once

#include <optional>

#include "base/measured_loss.h"
#include "evaluate/evaluate.h"

namespace bitpress::evaluate {

// Returns the loss by the measure that comes first; nothing if no measure fits the outputs.
std::optional<MeasuredLoss> FirstLossOf(const EvaluationReport& report);

// Returns the output that loses more than what the first measure is about; nothing if none does.
std::optional<HeadReport> WorstHeadOf(const EvaluationReport& report);

// Returns the loss: of several outputs that of the worst. Its measure is the first one. It is
// infinite if the model gives NaN or infinity where the float model gives numbers. Without any
// measure it is the energy of the error. Nothing if the outputs hold no floating-point numbers.
// REQUIRES: the report has a reference.
std::optional<MeasuredLoss> LossOf(const EvaluationReport& report);

}  // namespace bitpress::evaluate
