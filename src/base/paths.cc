#include "base/paths.h"

#include <utility>

namespace bitpress {

std::filesystem::path WithSuffix(std::filesystem::path path, std::string_view suffix) {
  path += PathOf(suffix);
  return path;
}

}  // namespace bitpress
