// Norms that add their inputs first are divided into a sum and a norm, so that the sum, the one
// value that crosses between two blocks of a decoder, exists.
#pragma once

#include "graph/model.h"

namespace bitpress::gradients {

// Replaces SkipSimplifiedLayerNormalization and SkipLayerNormalization of the main graph. Each norm
// keeps its name and outputs. Those with outputs that only training has stay.
void SeparateSums(graph::Model& model);

}  // namespace bitpress::gradients
