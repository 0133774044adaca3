// The version of Bitpress.
#pragma once

#include <string_view>

namespace bitpress {

// Returns the version as releases are named, such as "1.2.0".
std::string_view Version();

}  // namespace bitpress
