#include "base/file_states.h"

#include <sys/stat.h>

#include <algorithm>

namespace bitpress {

std::optional<FileStates::State> FileStates::StateOf(const std::filesystem::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return State{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
               status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void FileStates::Add(const std::filesystem::path& path) { files_.push_back({path, StateOf(path)}); }

bool FileStates::AreUnchanged() const {
  return std::ranges::all_of(files_,
                             [](const File& file) { return StateOf(file.path) == file.state; });
}

}  // namespace bitpress
