// Puts observers into a model.
#pragma once

#include <span>
#include <string>

#include "graph/model.h"

namespace bitpress::calibrate {

// Observes values[i] with id i. Throws Error(kInvalidArgument) if it is not a float value.
void InsertObservers(graph::Model& model, std::span<const std::string> values);

}  // namespace bitpress::calibrate
