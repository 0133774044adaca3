#include "base/file_stamps.h"

#include <algorithm>

namespace bitpress {

void FileStamps::Add(const std::filesystem::path& path) { files_.push_back({path, StampOf(path)}); }

bool FileStamps::AreUnchanged() const {
  return std::ranges::all_of(files_,
                             [](const File& file) { return StampOf(file.path) == file.stamp; });
}

}  // namespace bitpress
