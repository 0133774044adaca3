// The extraction of a part of a model as a model of its own, for running or folding that part
// alone.
#pragma once

#include <span>
#include <string>

#include "graph/model.h"

namespace bitpress::graph {

// Returns the nodes that compute `outputs` from `inputs`, with the constants, operator sets and
// functions that they need. Values of `inputs` become inputs of the graph, in this order, even if
// nothing reads them. Inputs of `model` that are read besides follow. Names stay. Data of large
// constants are shared, not copied. Throws Error(kInvalidArgument) if an output is not the output
// of a node, Error(kUnsupported) if an input is no tensor of known type.
Model Extract(const Model& model, std::span<const std::string> inputs,
              std::span<const std::string> outputs);

}  // namespace bitpress::graph
