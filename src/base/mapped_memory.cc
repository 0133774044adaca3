#include "base/mapped_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace bitpress {

MappedMemory::MappedMemory(size_t size) {
  if (size == 0) return;
  // The folder takes the file's name with it. The mapping stays.
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "memory";
  const auto fail = [&](int code) {
    Fail(ErrorCode::kIo, "cannot write {} bytes to '{}': {} (TMPDIR names the folder)", size,
         path.string(), std::generic_category().message(code));
  };
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) fail(errno);
  // A page without room on the disk would end the process when it is written.
  int code = ::posix_fallocate(descriptor, 0, static_cast<off_t>(size));
  void* memory = MAP_FAILED;
  if (code == 0) {
    memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) code = errno;
  }
  ::close(descriptor);
  if (code != 0) fail(code);
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedMemory::Release() const {
  // In a shared mapping this drops no contents.
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

namespace {

uintptr_t PageSize() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// Returns whether the pages lie in mappings of files, and none of them is a copy of this process,
// whose contents dropping would lose.
bool AreUnchangedPages(uintptr_t first_page, size_t num_pages) {
  const int descriptor = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  constexpr uint64_t kInMemory = uint64_t{1} << 63U, kSwapped = uint64_t{1} << 62U;
  constexpr uint64_t kOfFile = uint64_t{1} << 61U;  // or shared, whose contents stay, too
  std::array<uint64_t, 512> entries{};
  bool is_unchanged = true;
  while (is_unchanged && num_pages > 0) {
    const size_t count = std::min(num_pages, entries.size()), size = count * sizeof(uint64_t);
    const auto offset = static_cast<off_t>(first_page * sizeof(uint64_t));
    is_unchanged = ::pread(descriptor, entries.data(), size, offset) == static_cast<ssize_t>(size);
    for (const uint64_t entry : std::span(entries).first(count)) {
      is_unchanged &= (entry & kOfFile) != 0 || (entry & (kInMemory | kSwapped)) == 0;
    }
    first_page += count;
    num_pages -= count;
  }
  ::close(descriptor);
  return is_unchanged;
}

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
  if (AreUnchangedPages(first, last - first + 1)) ReleasePages(bytes);
}

}  // namespace bitpress
