// The one loss of a quantized model beside the float one, by the measure that suits its outputs.
// `auto`, `search` and the guard of `quantize` decide by it. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evaluate/evaluate.h"

namespace bitpress::evaluate {

struct MeasuredLoss {
  double loss = 0;  // in parts of the float model's
  std::string measure;
  // The measure counts these ("boxes"), and there are so many of them. "": it counts nothing, and
  // any small change shows.
  std::string items = "";
  uint64_t num_items = 0;
  std::optional<HeadReport> worst_head = {};  // the output that the loss is of, if it is another
};

// Returns the loss by the measure that comes first; nothing if no measure fits the outputs.
std::optional<MeasuredLoss> FirstLossOf(const EvaluationReport& report);

// Returns the loss: of several outputs that of the worst. It is infinite if the model gives NaN or
// infinity where the float model gives numbers. Without any measure it is the energy of the error.
// Nothing if the outputs hold no floating-point numbers. REQUIRES: the report has a reference.
std::optional<MeasuredLoss> LossOf(const EvaluationReport& report);

}  // namespace bitpress::evaluate
