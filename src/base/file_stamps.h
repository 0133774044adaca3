// Remembers files as they are now, to see later whether someone changed them. Sizes, times and
// inodes are compared, so that it costs nothing. What the files mean is for fingerprints to tell.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/system_files.h"

namespace bitpress {

class FileStamps {
 public:
  // Notes a file, or that it does not exist.
  void Add(const std::filesystem::path& path);
  // Returns whether all noted files are as they were.
  bool AreUnchanged() const;

 private:
  struct File {
    std::filesystem::path path;
    std::optional<FileStamp> stamp;
  };

  std::vector<File> files_;
};

}  // namespace bitpress
