#include "base/system_pages.h"

#include <windows.h>

#include <new>

namespace bitpress {

std::byte* MapHugePages(size_t size) {
  constexpr DWORD kUsual = MEM_RESERVE | MEM_COMMIT;
  // Only users whom an administrator has granted "lock pages in memory" have them.
  void* memory = nullptr;
  if (::GetLargePageMinimum() == kHugePage) {
    memory = ::VirtualAlloc(nullptr, size, kUsual | MEM_LARGE_PAGES, PAGE_READWRITE);
  }
  if (memory == nullptr) memory = ::VirtualAlloc(nullptr, size, kUsual, PAGE_READWRITE);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

void UnmapPages(std::byte* memory, size_t) { ::VirtualFree(memory, 0, MEM_RELEASE); }

}  // namespace bitpress
