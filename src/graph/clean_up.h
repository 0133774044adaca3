// Passes that keep the meaning of a model. Each returns how much it changed; run again, 0.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::graph {

// Removes nodes none of whose outputs is read (nodes without outputs stay), initializers that
// nothing reads, imports of operator sets that no node uses (subgraphs and functions included; the
// standard one stays), and descriptions of values that do not exist. Returns the number of things
// removed.
size_t RemoveUnused(Model& model);

// Turns the Constant nodes of the main graph into initializers, but for those that are graph
// outputs or hold sparse tensors. Returns their number.
size_t ConstantsToInitializers(Model& model);

}  // namespace bitpress::graph
