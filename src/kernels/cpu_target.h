// The choice of the instruction set that the kernels run on. It is made once, from the sets that
// this processor has. Tests and benches force others. Highway compiles each kernel for every
// target. Highway's own library does not choose, so that the operator library depends on nothing
// but the C++ runtime.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::kernels {

// Returns the names of the compiled targets this processor can run, best first: "AMX" (AVX-512 and
// tiles), "AVX3_BF16" (AVX-512 and dot products of bfloat16; behind "AVX3" where these are slow),
// "AVX3" (AVX-512), "AVX2", "SSE4" and "PORTABLE", or "NEON" on Arm.
std::vector<std::string> SupportedTargets();

// Makes the kernels use a target from now on; "" goes back to the best. Not thread-safe against
// running kernels. Throws Error(kInvalidArgument) if `name` is none of SupportedTargets().
void UseTarget(std::string_view name);

// Returns the name of the target that the kernels use.
std::string_view CurrentTarget();
// Returns the target whose vectors they use: CurrentTarget(), but "AVX3" in place of "AMX" and
// "AVX3_BF16".
std::string_view CurrentVectors();

// Returns whether the processor has tiles for which there are kernels ("AMX"), but the system does
// not let this process use them.
bool AreTilesRefused();

}  // namespace bitpress::kernels
