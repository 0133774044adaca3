// A temporary folder that is removed, with everything in it, when the object dies.
#pragma once

#include <filesystem>

namespace bitpress {

class ScratchFolder {
 public:
  // Creates the folder in the system's folder for temporary files. Throws Error(kIo).
  ScratchFolder();
  // Creates the folder beside a file that is to be written, with a name that begins as the file's
  // and that nothing else has. What is made in it can be renamed to the file. Throws Error(kIo).
  explicit ScratchFolder(const std::filesystem::path& beside);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bitpress
