// A file that appears under its name only when all of it is written: a reader sees the old content
// or the new, never a part. Use it for every file that a user keeps. For example:
//
//   AtomicFile file("model.onnx");
//   file.Write(bytes);
//   file.Commit();
//
// The data go to a file without a name in the same folder. `Commit` flushes it to disk, if that is
// asked for, and puts it in place. Without Commit nothing is left, even if the process is killed.
// File systems that have no files without names get a temporary one with a name, which only a
// killed process leaves behind. On Windows it has a name, but goes with the process until it is
// read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/system_files.h"

namespace bitpress {

// The durability says what Commit waits for.
enum class Durability {
  kOnDisk,      // the content is on the disk, and survives a loss of power
  kForReaders,  // other processes read it, while this one lives: temporary files
};

class AtomicFile {
 public:
  // kNamed gives the file a temporary name from the start, as some file systems demand.
  enum class Start { kNamelessIfPossible, kNamed };
  // Creates the file. Throws Error(kIo) if the folder does not exist or cannot be written, or if a
  // file of the name cannot be replaced.
  explicit AtomicFile(std::filesystem::path path, Start start = Start::kNamelessIfPossible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes. Throws Error(kIo), a full disk included.
  void Write(const void* data, size_t num_bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }

  // Returns a path under which this process and others of the user can read what was written,
  // before Commit and while this object lives. Nothing can be written from then on. `beside` gives
  // the file a temporary name in its folder, so that relative names in it can be followed;
  // otherwise it may stay without a name.
  std::filesystem::path ReadablePath(bool beside);

  // Makes the file visible under its name. Throws Error(kIo), and the written data are gone then.
  void Commit(Durability durability = Durability::kOnDisk);

 private:
  [[noreturn]] void FailIo(std::string_view action, const std::error_code& error) const;
  std::filesystem::path NumberedName(int number) const;
  void CreateNamed();
  // Each system does these in its own way. The first returns why the file that exists cannot be
  // replaced, before any work; "" if it can. The second makes a file without a name, if it can.
  std::string WhyNotReplaceable() const;
  bool StartNameless();
  void GiveName();
  void PutInPlace(std::error_code& error);

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // name until Commit; empty if the file has none
  SystemFile file_;
};

// Returns the file that a symbolic link leads to, which need not exist; a path that is no link
// returns as it is. Writing to the result keeps the link. Throws Error(kIo) if it cannot be
// followed.
std::filesystem::path FollowLink(const std::filesystem::path& path);

// Checks, before any work is done for it, that a file can be written there. Throws Error(kIo).
void CheckWritable(const std::filesystem::path& path);

// Writes a whole file, which appears with all of the content or not at all. Throws Error(kIo).
void WriteFile(const std::filesystem::path& path, std::string_view content,
               Durability durability = Durability::kOnDisk);

// The whole file. Throws Error(kIo) naming the path.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace bitpress
