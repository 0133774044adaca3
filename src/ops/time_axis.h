// Which inputs of a model are sequences whose first dimension is time, so that samples cannot be
// stacked along it.
#pragma once

#include "graph/model.h"

namespace bitpress::ops {

// Returns true if a recurrent operator takes the first dimension of an input for time, and not for
// a batch: it reads the input itself, or a value that has the input's first dimension by name.
// Returns false where that dimension is fixed: as many rows are a run there anyway.
bool HasTimeFirst(const graph::Model& model);

}  // namespace bitpress::ops
