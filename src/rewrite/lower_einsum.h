// Replaces each Einsum that multiplies an activation with a constant, and is a matrix product, by a
// MatMul: "abc,cd->abd", and with Transpose and Reshape around it "btd,dnh->btnh" and its kin, as
// exporters of Flax and Keras write projections. Plans then treat the constant as any other weight.
// Prepare runs it. Pure.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::rewrite {

// Returns the number of nodes that were replaced. The MatMul has the name of the Einsum, and the
// constant keeps its name unless other nodes read it, too. An Einsum stays if it has a label in all
// three terms (a product of stacked matrices), one that only one term has, or one twice, or if the
// terms have an ellipsis.
size_t LowerEinsum(graph::Model& model);

}  // namespace bitpress::rewrite
