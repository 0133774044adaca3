#include "base/shared_library.h"

#include <system_error>

namespace bitpress {

std::filesystem::path ProgramFile() {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : file;
}

std::string LibraryFileName(std::string_view name) { return "lib" + std::string(name) + ".so"; }

}  // namespace bitpress
