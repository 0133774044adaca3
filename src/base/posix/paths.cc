#include "base/paths.h"

namespace bitpress {

std::string PathText(const std::filesystem::path& path) { return path.native(); }

std::string PortablePathText(const std::filesystem::path& path) { return path.native(); }

std::filesystem::path PathOf(std::string_view text) { return text; }

std::filesystem::path SystemPath(const std::filesystem::path& path) { return path; }

}  // namespace bitpress
