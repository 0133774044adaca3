#include "base/mapped_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/scratch_folder.h"

namespace bitpress {
namespace {

// A file of letters that is mapped as ONNX Runtime maps weights.
class Mapping {
 public:
  explicit Mapping(size_t size) : size_(size) {
    const std::filesystem::path path = folder_.path() / "weights";
    std::ofstream(path, std::ios::binary) << std::string(size, 'w');
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    ::close(descriptor);
    if (memory != MAP_FAILED) data_ = static_cast<std::byte*>(memory);
  }
  ~Mapping() { ::munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  // Returns the number of letters, all of which are then in memory.
  size_t CountLetters() const {
    size_t count = 0;
    for (const std::byte b : bytes()) count += b == std::byte{'w'} ? 1 : 0;
    return count;
  }

 private:
  const ScratchFolder folder_;
  size_t size_;
  std::byte* data_ = nullptr;
};

// Returns how many pages of the bytes this process has in its memory.
size_t PagesInMemory(std::span<const std::byte> bytes) {
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += page) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data() + at);
    uint64_t entry = 0;
    const auto offset = static_cast<off_t>(address / page * sizeof(entry));
    if (::pread(map, &entry, sizeof(entry), offset) == sizeof(entry)) count += entry >> 63U;
  }
  ::close(map);
  return count;
}

constexpr size_t kMappedSize = size_t{3} << 20;  // more entries than are read at once

TEST(MappedMemoryTest, UnchangedPagesOfAFileAreReleased) {
  const Mapping file(kMappedSize);
  ASSERT_NE(file.bytes().data(), nullptr);
  ASSERT_EQ(file.CountLetters(), kMappedSize);
  ASSERT_GT(PagesInMemory(file.bytes()), 0U);
  ReleaseUnchangedPages(
      file.bytes().subspan(5000, kMappedSize - 10000));  // neither end is that of a page
  EXPECT_LE(PagesInMemory(file.bytes()), 2U);
  EXPECT_EQ(file.CountLetters(), kMappedSize);
}

TEST(MappedMemoryTest, ChangesAreKept) {
  const Mapping file(kMappedSize);
  ASSERT_EQ(file.CountLetters(), kMappedSize);
  file.bytes()[kMappedSize - 1] = std::byte{'c'};
  ReleaseUnchangedPages(file.bytes());
  EXPECT_GT(PagesInMemory(file.bytes()), 0U);
  EXPECT_EQ(file.CountLetters(), kMappedSize - 1);
  EXPECT_EQ(file.bytes()[kMappedSize - 1], std::byte{'c'});
}

TEST(MappedMemoryTest, MemoryOfTheHeapIsKept) {
  const std::string text(kMappedSize, 'w');
  ReleaseUnchangedPages(std::as_bytes(std::span(text)));
  EXPECT_EQ(text, std::string(kMappedSize, 'w'));
  ReleaseUnchangedPages({});
}

}  // namespace
}  // namespace bitpress
