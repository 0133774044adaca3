// Pass dequantize-in-bodies: ONNX Runtime computes an operator on integers only where the
// DequantizeLinear of what it reads stands in the same graph. So where a body of an If, Loop or
// Scan reads a value that is dequantized outside, it gets the codes and a DequantizeLinear of its
// own. Names are derived, the meaning stays.
#pragma once

#include "graph/model.h"

namespace bitpress::emit {

// A copy stands before its first reader and gives `<value>_quantized`; the outer one goes if
// nothing reads it any more. Returns whether anything changed; a second run changes nothing.
bool DequantizeInBodies(graph::Model& model);

}  // namespace bitpress::emit
