// The version of Bitpress.
#pragma once

#include <string>
#include <string_view>

namespace bitpress {

// Returns the version as releases are named, such as "1.2.0".
std::string_view Version();

// Returns what it was built with: "built with GCC 12.2.0 (Release), ONNX 1.23.2, ...".
std::string BuildDescription();

}  // namespace bitpress
