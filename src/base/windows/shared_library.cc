#include "base/shared_library.h"

#include <windows.h>

#include "base/paths.h"
#include "base/system_error.h"

namespace bitpress {
namespace {

std::filesystem::path FileOfModule(HMODULE module) {
  for (std::wstring path(MAX_PATH, L'\0');; path.resize(2 * path.size())) {
    const DWORD size = ::GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size()));
    if (size == 0) return {};
    if (size == path.size()) continue;
    path.resize(size);
    return path;
  }
}

}  // namespace

// What the library needs is looked for beside it, and never in the current folder.
SharedLibrary::SharedLibrary(const std::filesystem::path& path, std::string& why) {
  constexpr DWORD kBeside = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
  std::error_code error;
  const bool has_place = path.has_parent_path();
  const std::filesystem::path file = has_place ? std::filesystem::absolute(path, error) : path;
  handle_ = ::LoadLibraryExW(SystemPath(file).c_str(), nullptr,
                             has_place ? kBeside : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (!is_open()) why = ErrorText(LastError());
}

void* SharedLibrary::Find(const char* name) const {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(handle_), name));
}

void SharedLibrary::Close() {
  ::FreeLibrary(static_cast<HMODULE>(handle_));
  handle_ = nullptr;
}

std::filesystem::path ProgramFile() { return FileOfModule(nullptr); }

std::filesystem::path FileOfCode(const void* address) {
  HMODULE module = nullptr;
  constexpr DWORD kFlags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (::GetModuleHandleExW(kFlags, static_cast<const wchar_t*>(address), &module) == 0) return {};
  return FileOfModule(module);
}

std::string LibraryFileName(std::string_view name) { return std::string(name) + ".dll"; }

std::string ProgramFileName(std::string_view name) { return std::string(name) + ".exe"; }

}  // namespace bitpress
