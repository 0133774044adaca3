#include "base/version.h"

#include <fmt/format.h>

namespace bitpress {

std::string_view Version() { return BITPRESS_VERSION; }

std::string BuildDescription() {
#if defined(__clang__)
  const std::string compiler =
      fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  const std::string compiler = "GCC " __VERSION__;
#else
  const std::string compiler = "an unknown compiler";
#endif
  return fmt::format("built with {} ({}); {}", compiler, BITPRESS_BUILD_TYPE, BITPRESS_LIBRARIES);
}

}  // namespace bitpress
