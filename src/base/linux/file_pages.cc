#include "base/posix/file_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

namespace bitpress::posix {

std::error_code ReserveBytes(int descriptor, size_t size) {
  return {::posix_fallocate(descriptor, 0, static_cast<off_t>(size)), std::generic_category()};
}

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

}  // namespace bitpress::posix
