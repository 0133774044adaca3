// Lets the body of an If, Loop or Scan read the codes of what is dequantized outside of it, with a
// DequantizeLinear of its own (pass dequantize-in-bodies). ApplyPlan runs it on models with such
// bodies. Names are derived, and the meaning stays the same.
//
// Reasons: ONNX Runtime computes an operator on integers only if the DequantizeLinear of its input
// stands in the same graph. And where an operator moves dequantized elements, such as a Transpose,
// and a body reads the result, ONNX Runtime crashes: it puts a pair on the way to each reader, and
// a body has no input for that. So the result becomes codes, too, with the scale of the elements.
#pragma once

#include "graph/model.h"

namespace bitpress::emit {

// Inserts each copy before its first reader; the copy gives `<value>_quantized`. Removes the outer
// DequantizeLinear if nothing reads it any more. Returns whether anything changed; a second run
// changes nothing.
bool DequantizeInBodies(graph::Model& model);

}  // namespace bitpress::emit
