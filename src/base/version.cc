#include "base/version.h"

#include <fmt/format.h>

namespace bitpress {

std::string_view Version() { return BITPRESS_VERSION; }

std::string BuildDescription() {
#if defined(__clang__)
  constexpr std::string_view kCompiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
  constexpr std::string_view kCompiler = "GCC " __VERSION__;
#else
  constexpr std::string_view kCompiler = "an unknown compiler";
#endif
  return fmt::format("built with {} ({}); {}", kCompiler, BITPRESS_BUILD_TYPE, BITPRESS_LIBRARIES);
}

}  // namespace bitpress
