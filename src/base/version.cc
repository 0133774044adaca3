#include "base/version.h"

#include <fmt/format.h>

#include "base/error.h"

namespace bitpress {

std::string_view Version() { return BITPRESS_VERSION; }

std::string BuildDescription() {
#if defined(__clang__)
  const std::string compiler =
      fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  constexpr std::string_view compiler = "GCC " __VERSION__;
#else
  constexpr std::string_view compiler = "an unknown compiler";
#endif
  return fmt::format("built with {} ({}); {}", compiler, BITPRESS_BUILD_TYPE, BITPRESS_LIBRARIES);
}

void CheckFormatVersion(std::string_view what, int64_t found, int64_t newest) {
  if (found > newest) {
    Fail(
        ErrorCode::kInvalidArgument,
        "{}: version {} is newer than {}, the newest that Bitpress {} reads; use a newer Bitpress, "
        "or make the file again with this one",
        what, found, newest, Version());
  }
  if (found < 1) {
    Fail(ErrorCode::kInvalidArgument, "{}: there is no version {}; versions begin with 1", what,
         found);
  }
}

}  // namespace bitpress
