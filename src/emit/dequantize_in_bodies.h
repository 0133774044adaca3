// Gives the body of an If, Loop or Scan its own DequantizeLinear for each value that is dequantized
// outside the body (pass dequantize-in-bodies). ApplyPlan runs it on models with such bodies. The
// body then reads the codes of the value. Names are derived, and the meaning stays the same.
//
// Reason: ONNX Runtime computes an operator on integers only if the DequantizeLinear of its input
// stands in the same graph.
#pragma once

#include "graph/model.h"

namespace bitpress::emit {

// Inserts each copy before its first reader; the copy gives `<value>_quantized`. Removes the outer
// DequantizeLinear if nothing reads it any more. Returns whether anything changed; a second run
// changes nothing.
bool DequantizeInBodies(graph::Model& model);

}  // namespace bitpress::emit
