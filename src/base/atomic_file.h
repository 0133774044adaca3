// Writes a file so that a reader sees the old content or the new, never a part: data goes to a file
// without a name in the same folder, which `Commit` flushes to disk and puts in place. Without
// Commit nothing is left, even if the process is killed. File systems that have no such files get a
// temporary one with a name, which only a killed process leaves behind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace bitpress {

class AtomicFile {
 public:
  // kNamed gives the file a temporary name from the start, as some file systems demand.
  enum class Start { kNamelessIfPossible, kNamed };
  // Creates the file. Throws Error(kIo) if the folder does not exist or cannot be written.
  explicit AtomicFile(std::filesystem::path path, Start start = Start::kNamelessIfPossible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes. Throws Error(kIo), a full disk included.
  void Write(const void* data, size_t num_bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }

  // The file descriptor to write to directly; owned by this object.
  int descriptor() const { return descriptor_; }

  // Makes the file visible under its name. Throws Error(kIo); what was written is gone then.
  void Commit();

 private:
  [[noreturn]] void FailIo(std::string_view action) const;
  void CreateNamed();
  std::string NumberedName(int number) const;
  void GiveName();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // its name until Commit; empty: it has none
  int descriptor_ = -1;
};

// Checks, before any work is done for it, that a file can be written there. Throws Error(kIo).
void CheckWritable(const std::filesystem::path& path);

// The whole file. Throws Error(kIo) naming the path.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace bitpress
