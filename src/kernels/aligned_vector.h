// A std::vector whose elements begin at a line of the cache, for what kernels load as whole
// vectors.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace bitpress::kernels {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  LineAllocator() = default;
  template <class Other>
  explicit LineAllocator(const LineAllocator<Other>&) {}

  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kAlignment); }
  bool operator==(const LineAllocator&) const = default;
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace bitpress::kernels
