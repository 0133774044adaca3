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

// Makes float tensors that the bodies of If, Loop and Scan hold (initializers and Constant nodes,
// but no scalars and no outputs of a body) initializers of the main graph, where every body sees
// them: weights are in one place then. Equal ones become one, since tools repeat a constant in each
// branch. Returns their number.
size_t LiftBodyConstants(Model& model);

}  // namespace bitpress::graph
