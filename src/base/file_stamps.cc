#include "base/file_stamps.h"

#include <sys/stat.h>

#include <algorithm>

namespace bitpress {

std::optional<FileStamps::Stamp> FileStamps::StampOf(const std::filesystem::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
               status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void FileStamps::Add(const std::filesystem::path& path) { files_.push_back({path, StampOf(path)}); }

bool FileStamps::AreUnchanged() const {
  return std::ranges::all_of(files_,
                             [](const File& file) { return StampOf(file.path) == file.stamp; });
}

}  // namespace bitpress
