// Replaces lookups in packed tables by nodes that decode only the rows that are looked up (pass
// look-up-rows). ApplyPlan runs it on every model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/model.h"

namespace bitpress::emit {

// The least number of elements of a table that is not decoded as a whole. The decoder's operators
// take longer than a Gather, and a small table of floats costs little.
inline constexpr int64_t kLeastLookupElements = 1 << 16;

// Replaces each Gather along axis 0 from an Unpack node (weights/lookup_nodes.h), and removes
// Unpack nodes and functions that nothing reads any more. Returns the number of lookups.
size_t LookUpRows(graph::Model& model);

}  // namespace bitpress::emit
