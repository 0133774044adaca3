// The time axis of a model's inputs. Calibration and evaluation ask here whether the first
// dimension of an input is time, because samples cannot be stacked along it then. Pure.
#pragma once

#include "graph/model.h"

namespace bitpress::ops {

// Returns true if a recurrent operator takes the first dimension of an input for time, and not for
// a batch: it reads the input itself, or a value that has the input's first dimension by name.
// Returns false where that dimension is fixed: as many rows are a run there anyway.
bool HasTimeFirst(const graph::Model& model);

}  // namespace bitpress::ops
