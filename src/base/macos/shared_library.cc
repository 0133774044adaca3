#include "base/shared_library.h"

#include <mach-o/dyld.h>

#include <system_error>

namespace bitpress {

std::filesystem::path ProgramFile() {
  uint32_t size = 0;
  ::_NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (::_NSGetExecutablePath(path.data(), &size) != 0) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path.c_str(), error);
  return error ? std::filesystem::path() : file;
}

std::string LibraryFileName(std::string_view name) { return "lib" + std::string(name) + ".dylib"; }

}  // namespace bitpress
