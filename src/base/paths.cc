#include "base/paths.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "base/text.h"

namespace bitpress {
namespace {

// Returns whether a part of a path is a device of Windows, which stands in every folder.
bool IsDevice(std::string_view part) {
  constexpr std::array<std::string_view, 6> kDevices{"aux",     "con", "conin$",
                                                     "conout$", "nul", "prn"};
  const std::string name = ToLower(part);
  const bool is_port = name.size() == 4 && (name.starts_with("com") || name.starts_with("lpt")) &&
                       name[3] >= '0' && name[3] <= '9';
  return is_port || IsOneOf(name, kDevices);
}

}  // namespace

std::filesystem::path WithSuffix(std::filesystem::path path, std::string_view suffix) {
  path += PathOf(suffix);
  return path;
}

bool StaysInside(std::string_view location) {
  const bool has_drive = location.size() > 1 && location[1] == ':' &&
                         std::isalpha(static_cast<unsigned char>(location[0])) != 0;
  if (location.empty() || location.find('\0') != std::string_view::npos || has_drive ||
      location[0] == '/' || location[0] == '\\') {
    return false;
  }
#ifdef _WIN32
  // A second content of a file, "name:stream", is inside the folder, but no file in it.
  if (location.find(':') != std::string_view::npos) return false;
#endif
  std::string slashes(location);
  std::ranges::replace(slashes, '\\', '/');
  int depth = 0;
  for (const std::string& part : Split(slashes, '/')) {
    if (part.empty() || part == ".") continue;
    const bool is_up = part.find_first_not_of(". ") == std::string::npos;
    depth += is_up ? -1 : 1;
    if (depth < 0 || (is_up && part != "..") || IsDevice(part)) return false;
  }
  return depth > 0;
}

}  // namespace bitpress
