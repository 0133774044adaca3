#include "base/version.h"

namespace bitpress {

std::string_view Version() { return BITPRESS_VERSION; }

}  // namespace bitpress
