// The size of an integer model's file. Quantizers and their constants take bytes: in a small
// network with long names they take more than integers save. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// Leaves activations float until the model's file is smaller by about `bytes`, those first that
// save most bytes for the products that become floats, and then weights that are too small to pay
// for their scales. Adds them to resolved.left_float. Returns the number of tensors that it left
// float: 0 if there are no more. REQUIRES: placement qdq.
size_t ShrinkFile(plan::ResolvedPlan& resolved, const graph::Model& model, uint64_t bytes);

}  // namespace bitpress::calibrate
