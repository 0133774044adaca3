// The rooms' tests ask this of the system beyond base/. Not part of the library.
#pragma once

#ifndef _WIN32
#include <sys/stat.h>
#endif

#include <filesystem>
#include <string>
#include <system_error>

#include "base/paths.h"
#include "base/shared_library.h"

namespace bitpress {

// Returns whether Wine stands for Windows. It does not do all that Windows does.
inline bool IsWine() {
#ifdef _WIN32
  std::string why;
  return SharedLibrary(PathOf("ntdll.dll"), why).Find("wine_get_version") != nullptr;
#else
  return false;
#endif
}

// Makes a symbolic link, and returns whether it could. Wine makes some that lead nowhere.
inline bool MakeLink(const std::filesystem::path& target, const std::filesystem::path& link) {
  if (IsWine()) return false;
  std::error_code error;
  if (std::filesystem::is_directory(link.parent_path() / target, error)) {
    std::filesystem::create_directory_symlink(target, link, error);
  } else {
    std::filesystem::create_symlink(target, link, error);
  }
  return !error;
}

// Makes a pipe with a name, and returns whether it could; on Windows there are none in folders.
inline bool MakePipe([[maybe_unused]] const std::filesystem::path& path) {
#ifdef _WIN32
  return false;
#else
  return ::mkfifo(path.c_str(), 0600) == 0;
#endif
}

}  // namespace bitpress
