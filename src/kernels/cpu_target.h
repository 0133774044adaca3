// Which instruction set the kernels run on. Chosen once from what this processor has; tests and
// benches force others. Highway compiles each kernel for every target; the choice is made here and
// not by Highway's own library, so that the operator library depends on nothing but the C++
// runtime.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::kernels {

// Names of the compiled targets this processor can run, best first: "AVX3" (AVX-512), "AVX2",
// "SSE4", "PORTABLE".
std::vector<std::string> SupportedTargets();

// The target the kernels use from now on. Not thread-safe against running kernels.
// Throws Error(kInvalidArgument) if `name` is none of SupportedTargets(). "" goes back to the best.
void UseTarget(std::string_view name);

std::string_view CurrentTarget();

}  // namespace bitpress::kernels
