// Remembers files as they are now, to see later whether someone changed them. Sizes, times and
// inodes are compared, so that it costs nothing. What the files mean is for fingerprints to tell.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace bitpress {

class FileStamps {
 public:
  // Notes a file, or that it does not exist.
  void Add(const std::filesystem::path& path);
  // Returns whether all noted files are as they were.
  bool AreUnchanged() const;

 private:
  struct Stamp {
    uint64_t device = 0, inode = 0, num_bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  // of the last change of the content

    bool operator==(const Stamp&) const = default;
  };
  struct File {
    std::filesystem::path path;
    std::optional<Stamp> stamp;
  };
  static std::optional<Stamp> StampOf(const std::filesystem::path& path);

  std::vector<File> files_;
};

}  // namespace bitpress
