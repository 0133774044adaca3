// Lets attention hold its key-value caches as integers (pass quantize-caches). ApplyPlan runs it if
// the plan has such caches.
#pragma once

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::emit {

// Gives each GroupQueryAttention of the plan's caches its scales, and changes the types of the
// model's inputs and outputs that are these caches: INT8, or UINT8 with two codes of 4 bits in a
// byte. Caches without scales stay float. Returns whether there was one with scales. Throws
// Error(kInvalidArgument) if there are not as many scales as heads and channels. REQUIRES: the plan
// fits (plan::CheckFits).
bool QuantizeCaches(graph::Model& model, const plan::QuantPlan& plan);

}  // namespace bitpress::emit
