#include "base/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/error.h"
#include "base/paths.h"
#include "base/posix/file_pages.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"

namespace bitpress {

MappedMemory::MappedMemory(size_t size) {
  if (size == 0) return;
  // The folder takes the file's name with it. The mapping stays.
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "memory";
  std::error_code error;
  const SystemFile file(path, SystemFile::Use::kCreatePrivate, error);
  const auto descriptor = static_cast<int>(file.handle());
  // A page without room on the disk would end the process when it is written.
  if (!error) error = posix::ReserveBytes(descriptor, size);
  void* memory = MAP_FAILED;
  if (!error) {
    memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) error = LastError();
  }
  if (error) {
    Fail(ErrorCode::kIo, "cannot write {} bytes to '{}': {} (TMPDIR names the folder)", size,
         PathText(path), ErrorText(error));
  }
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedMemory::Release() const {
  // In a shared mapping this drops no contents.
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

MappedFile::MappedFile(const SystemFile& file, std::error_code& error) {
  const auto size = static_cast<size_t>(file.num_bytes());
  if (size == 0) return;
  const auto descriptor = static_cast<int>(file.handle());
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) {
    error = LastError();
  } else {
    bytes_ = {static_cast<const std::byte*>(memory), size};
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

namespace {

uintptr_t PageSize() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

void ReleasePages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = address / PageSize() * PageSize();
  const size_t length = address + bytes.size() - begin;
  ::madvise(reinterpret_cast<void*>(begin), length, MADV_DONTNEED);  // it rounds the end up
}

void ReleaseUnchangedPages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = address / PageSize(), last = (address + bytes.size() - 1) / PageSize();
  if (posix::AreUnchangedPages(first, last - first + 1)) ReleasePages(bytes);
}

}  // namespace bitpress
