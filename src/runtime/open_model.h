// Models in memory, opened in ONNX Runtime.
#pragma once

#include <vector>

#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::runtime {

// A session of `model`, without copies of large constants on its way there: those go through a
// temporary file that ONNX Runtime maps. Throws Error as Session's constructor.
Session OpenModel(const graph::Model& model, const SessionOptions& options = {});

// The inputs of a model, as a session of it would describe them.
std::vector<ValueDescription> DescribeInputs(const graph::Model& model);

}  // namespace bitpress::runtime
