// The insertion of observers into a model, by which calibration sees its values.
#pragma once

#include <span>
#include <string>

#include "graph/model.h"

namespace bitpress::calibrate {

// Inserts an observer with id i for values[i]. Throws Error(kInvalidArgument) if it is not a float
// value.
void InsertObservers(graph::Model& model, std::span<const std::string> values);

}  // namespace bitpress::calibrate
