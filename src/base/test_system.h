// What the rooms' tests ask of the system beyond base/: pipes. Not part of the library.
#pragma once

#ifndef _WIN32
#include <sys/stat.h>
#endif

#include <filesystem>

namespace bitpress {

// Makes a pipe with a name, and returns whether it could; on Windows there are none in folders.
inline bool MakePipe([[maybe_unused]] const std::filesystem::path& path) {
#ifdef _WIN32
  return false;
#else
  return ::mkfifo(path.c_str(), 0600) == 0;
#endif
}

}  // namespace bitpress
