// Types of values behind operators that ONNX does not define. ONNX's inference stops there, and
// what has no type is neither observed nor measured.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::rewrite {

// Gives values of the main graph their types: what a constant matrix multiplies, and the product,
// have the matrix's type, and operators of ONNX Runtime for transformers give the type that they
// take. Shapes stay unknown. Returns the number of values that got a type; it is 0 if it runs
// again.
size_t InferTypes(graph::Model& model);

// Returns the number of nodes in the layout of one machine, which ONNX Runtime writes into a model
// that it optimizes in full. They cannot be quantized.
size_t NumInBlockedLayout(const graph::Model& model);

}  // namespace bitpress::rewrite
