// The names of all passes that tasks run, for options that switch one off.
#pragma once

#include <string_view>
#include <vector>

#include "graph/pass.h"

namespace bitpress::tasks {

// Returns the names in the order in which `quantize` and then `optimize` run the passes.
std::vector<std::string_view> AllPasses();

// Throws Error(kInvalidArgument), with the nearest, where a name is none of them.
void CheckPasses(const graph::PassNames& names);

}  // namespace bitpress::tasks
