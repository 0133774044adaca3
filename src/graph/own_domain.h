// The domain of our operators and of the functions that describe them.
#pragma once

namespace bitpress::graph {

inline constexpr const char* kOwnDomain = "bitpress";

}  // namespace bitpress::graph
