#include "base/system_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace bitpress {

std::byte* MapHugePages(size_t size) {
  void* const memory =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Only what begins where a huge page does can lie in them.
  auto* const first = static_cast<std::byte*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(first, before);
  if (before < kHugePage) ::munmap(first + before + size, kHugePage - before);
#ifdef MADV_HUGEPAGE
  ::madvise(first + before, size, MADV_HUGEPAGE);  // a request, which the system may not grant
#endif
  return first + before;
}

void UnmapPages(std::byte* memory, size_t size) { ::munmap(memory, size); }

}  // namespace bitpress
