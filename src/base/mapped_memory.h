// Memory that lies in a temporary file without a name: the system may write it out when it needs
// the room, where memory of the heap would have to stay.
#pragma once

#include <cstddef>

namespace bitpress {

class MappedMemory {
 public:
  MappedMemory() = default;  // no bytes
  // `size` zeros in a file in the system's folder for temporary files, which has their room from
  // the start. Throws Error(kIo) if it has not.
  explicit MappedMemory(size_t size);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // The contents stay, but are no part of this process's memory until they are used again.
  void Release() const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace bitpress
