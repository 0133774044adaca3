// Files as the system has them, for what the standard library does not offer. Rooms outside base/
// use AtomicFile, ReadFile and MappedFile where these do; this is what they are made of. Failures
// are reported in a std::error_code, whose text is ErrorText's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>

namespace bitpress {

// A file that is open, closed at the end of the object's life.
class SystemFile {
 public:
  enum class Use {
    kRead,           // an existing file, or whatever the path leads to
    kReadRegular,    // the same, without waiting for the writer of a pipe or following a link
    kCreate,         // to read and write, with the permissions of any new file; none may exist
    kCreatePrivate,  // the same, for this user only
    kReplace,        // to write, emptied if it exists, for this user only
  };
  enum class Kind { kRegular, kFolder, kOther };
  static constexpr intptr_t kNone = -1;

  SystemFile() = default;
  // Opens the file; otherwise sets `error`.
  SystemFile(const std::filesystem::path& path, Use use, std::error_code& error);
  // Takes over what the system calls the file: a descriptor or a handle.
  explicit SystemFile(intptr_t handle) : handle_(handle) {}
  ~SystemFile();
  SystemFile(SystemFile&& other) noexcept;
  SystemFile& operator=(SystemFile&& other) noexcept;

  bool is_open() const { return handle_ != kNone; }
  intptr_t handle() const { return handle_; }
  // The file must be open for what follows.
  Kind kind() const;
  uint64_t num_bytes() const;

  // Reads at most `size` bytes from where the last call ended, and returns how many; 0 at the end.
  size_t Read(void* data, size_t size, std::error_code& error);
  // Appends all bytes.
  void Write(const void* data, size_t size, std::error_code& error);
  // Waits until the content is on the disk.
  void Flush(std::error_code& error);
  void Close(std::error_code& error);

 private:
  intptr_t handle_ = kNone;
};

// The numbers that tell one state of a file from another.
struct FileStamp {
  uint64_t device = 0, inode = 0, num_bytes = 0;
  int64_t seconds = 0, nanoseconds = 0;  // of the last change of the content

  bool operator==(const FileStamp&) const = default;
};

// Returns the present stamp of a file; nothing if there is none.
std::optional<FileStamp> StampOf(const std::filesystem::path& path);

// Cuts a file, or puts zeros behind it. The standard library of some Windows compilers takes sizes
// below 2 GiB only.
std::error_code ResizeFile(const std::filesystem::path& path, uint64_t num_bytes);

// Returns why this process cannot read a file or folder that exists; no error if it can.
std::error_code WhyUnreadable(const std::filesystem::path& path);

// Returns whether this process may start the file as a program.
bool IsProgram(const std::filesystem::path& path);

// Creates a folder that only this user sees. Its parent must exist.
std::error_code MakePrivateFolder(const std::filesystem::path& path);

}  // namespace bitpress
