// Writes a file so that a reader sees the old content or the new, never a part: data goes to a
// temporary file in the same folder, `Commit` flushes it to disk and renames it. Without Commit the
// temporary file is removed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace bitpress {

class AtomicFile {
 public:
  // Creates the temporary file. Throws Error(kIo) if the folder does not exist or cannot be
  // written.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes. Throws Error(kIo), a full disk included.
  void Write(const void* data, size_t num_bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }

  // The file descriptor to write to directly; owned by this object.
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& temporary_path() const { return temporary_; }

  // Makes the file visible under its name. Throws Error(kIo); the temporary file is gone then.
  void Commit();

 private:
  [[noreturn]] void FailIo(std::string_view action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// The whole file. Throws Error(kIo) naming the path.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace bitpress
