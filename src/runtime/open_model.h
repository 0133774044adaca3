// The opening of models in memory in ONNX Runtime.
#pragma once

#include <vector>

#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::runtime {

// Returns a session of `model`. Large constants are not copied in memory on the way: they go
// through a temporary file that ONNX Runtime maps. Throws Error as Session's constructor.
Session OpenModel(const graph::Model& model, const SessionOptions& options = {});

// Returns the inputs of a model, as a session of it would describe them.
std::vector<ValueDescription> DescribeInputs(const graph::Model& model);

}  // namespace bitpress::runtime
