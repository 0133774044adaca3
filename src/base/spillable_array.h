// An array of a fixed length that lies on the heap or, if it is spilled, in a temporary file
// (base/mapped_memory.h). Use it for arrays whose number grows with the model. Its elements are
// zeros at first. For example:
//
//   SpillableArray<double> sums(num_sums, ArrayPlace::kTemporaryFile);
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/mapped_memory.h"

namespace bitpress {

// The place of an array's elements.
enum class ArrayPlace { kHeap, kTemporaryFile };

template <typename T>
class SpillableArray {
 public:
  SpillableArray() = default;
  // Throws as MappedMemory does.
  SpillableArray(size_t size, ArrayPlace place)
      : size_(size),
        heap_(place == ArrayPlace::kHeap ? size : 0),
        file_(place == ArrayPlace::kHeap ? MappedMemory() : MappedMemory(size * sizeof(T))) {}

  size_t size() const { return size_; }
  T* data() { return heap_.empty() ? reinterpret_cast<T*>(file_.data()) : heap_.data(); }
  const T* data() const {
    return heap_.empty() ? reinterpret_cast<const T*>(file_.data()) : heap_.data();
  }
  std::span<const T> view() const { return {data(), size_}; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  // REQUIRES: i < size().
  T& operator[](size_t i) {
    BITPRESS_DCHECK(i < size_);
    return data()[i];
  }
  const T& operator[](size_t i) const {
    BITPRESS_DCHECK(i < size_);
    return data()[i];
  }
  // Gives the memory of a spilled array back until it is used again.
  void Release() const { file_.Release(); }

  bool operator==(const SpillableArray& other) const { return std::ranges::equal(*this, other); }

 private:
  size_t size_ = 0;
  std::vector<T> heap_;
  MappedMemory file_;
};

}  // namespace bitpress
