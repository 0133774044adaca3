// Arrays of numbers in memory, as rules read and write them. T is float; tests of rules use double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace bitpress::gradients {

template <typename T>
struct Array {
  std::vector<int64_t> dims;
  std::vector<T> values;

  // Takes another shape. The values are anything afterwards.
  void Reshape(std::span<const int64_t> shape) {
    dims.assign(shape.begin(), shape.end());
    values.resize(static_cast<size_t>(NumElements(dims)));
  }
  size_t size() const { return values.size(); }
  T* data() { return values.data(); }
  const T* data() const { return values.data(); }
};

// Returns the product of dims[begin, end).
inline int64_t Extent(std::span<const int64_t> dims, size_t begin, size_t end) {
  return NumElements(dims.subspan(begin, end - begin));
}

}  // namespace bitpress::gradients
