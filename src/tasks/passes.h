// The names of all passes that tasks run. Use them for options that switch a pass off.
#pragma once

#include <string_view>
#include <vector>

#include "graph/pass.h"

namespace bitpress::tasks {

// The passes that tasks run themselves.
inline constexpr std::string_view kSmoothPass = "smooth";
inline constexpr std::string_view kFinetunePass = "finetune";
inline constexpr std::string_view kRemoveReordersPass = "remove-reorders";

// Returns the names in the order in which `quantize` and then `optimize` run the passes.
std::vector<std::string_view> AllPasses();

// Checks that every name is a pass. Throws Error(kInvalidArgument) with the nearest name otherwise.
void CheckPasses(const graph::PassNames& names);

}  // namespace bitpress::tasks
