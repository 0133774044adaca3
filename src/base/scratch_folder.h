// A temporary folder of our own that goes with everything in it.
#pragma once

#include <filesystem>

namespace bitpress {

class ScratchFolder {
 public:
  // In the system's folder for temporary files. Throws Error(kIo).
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bitpress
