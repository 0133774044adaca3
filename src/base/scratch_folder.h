// A temporary folder that is removed, with everything in it, when the object dies.
#pragma once

#include <filesystem>

namespace bitpress {

class ScratchFolder {
 public:
  // Creates the folder in the system's folder for temporary files. Throws Error(kIo).
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bitpress
