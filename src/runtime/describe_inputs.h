// The inputs of a model that no session has opened.
#pragma once

#include <vector>

#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::runtime {

// Returns the inputs of a model, as a session of it would describe them.
std::vector<ValueDescription> DescribeInputs(const graph::Model& model);

}  // namespace bitpress::runtime
