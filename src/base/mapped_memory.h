// Memory that is a file: one that exists, to read it where it lies, or a temporary one without a
// name. The latter is for large arrays that are seldom used: the system may write them out when it
// needs the room, where memory of the heap has to stay.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/system_files.h"

namespace bitpress {

class MappedMemory {
 public:
  MappedMemory() = default;  // no bytes
  // Reserves `size` zero bytes in a file in the system's folder for temporary files. Throws
  // Error(kIo) if there is no room for all of them.
  explicit MappedMemory(size_t size);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Takes the pages out of this process's memory until they are used again. The contents stay.
  void Release() const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The bytes of a file, as long as the object lives.
class MappedFile {
 public:
  // Maps an open regular file, which may be closed then; otherwise sets `error`.
  MappedFile(const SystemFile& file, std::error_code& error);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Takes the pages of a mapped file out of this process's memory until they are used again, those at
// both ends too. REQUIRES: the bytes lie in a mapping of a file that this process does not write
// to, or that is shared.
void ReleasePages(std::span<const std::byte> bytes);

// Does the same if it can see that all pages are those of a mapped file, and that nobody wrote to
// them; else it does nothing. REQUIRES: nobody writes to the bytes meanwhile.
void ReleaseUnchangedPages(std::span<const std::byte> bytes);

}  // namespace bitpress
