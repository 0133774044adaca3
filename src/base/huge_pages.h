// Memory for arrays that are written once and read from end to end many times, such as the weights
// of a session. It lies in pages of 2 MB where the system has them (Linux, transparent huge pages
// not `never`): the hardware prefetches within a page only. Small arrays share pages.
#pragma once

#include <cstddef>
#include <vector>

namespace bitpress {

// Returns memory that begins at a line of the cache. Thread-safe. Throws std::bad_alloc.
void* AllocateInHugePages(size_t size);
// Gives it back. Pages go back to the system when nothing in their chunk of 32 MB is in use.
void FreeInHugePages(void* memory) noexcept;

template <class T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <class Other>
  explicit HugePageAllocator(const HugePageAllocator<Other>&) {}

  T* allocate(size_t count) { return static_cast<T*>(AllocateInHugePages(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { FreeInHugePages(memory); }
  bool operator==(const HugePageAllocator&) const = default;
};

template <class T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace bitpress
