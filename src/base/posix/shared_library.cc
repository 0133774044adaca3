#include "base/shared_library.h"

#include <dlfcn.h>

namespace bitpress {

SharedLibrary::SharedLibrary(const std::filesystem::path& path, std::string& why)
    : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (is_open()) return;
  const char* const text = ::dlerror();
  why = text == nullptr ? path.native() : text;
}

void* SharedLibrary::Find(const char* name) const { return ::dlsym(handle_, name); }

void SharedLibrary::Close() {
  ::dlclose(handle_);
  handle_ = nullptr;
}

std::filesystem::path FileOfCode(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string ProgramFileName(std::string_view name) { return std::string(name); }

}  // namespace bitpress
