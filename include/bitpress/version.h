// The version of Bitpress.
#pragma once

#include <string>
#include <string_view>

#include "bitpress/export.h"

namespace bitpress {

// Returns the version as releases are named, such as "1.2.0".
BITPRESS_API std::string_view Version();

// Returns what the library was built with: "built with GCC 12.2.0 (Release); ONNX 1.23.2, ...".
BITPRESS_API std::string BuildDescription();

}  // namespace bitpress
