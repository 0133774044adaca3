// The fast Walsh-Hadamard transform: log2(size) steps of sums and differences.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace bitpress {

// Multiplies a matrix, `values.size() / size` numbers to each of `size` rows, by the Hadamard
// matrix from the left, which is normalized, and so its own inverse. REQUIRES: size is a power of
// two.
template <typename T>
void TurnRows(std::span<T> values, size_t size) {
  const size_t width = values.size() / size;
  for (size_t half = 1; half < size; half *= 2) {
    for (size_t i = 0; i < size; ++i) {
      if ((i & half) != 0) continue;
      T* const low = values.data() + i * width;
      T* const high = low + half * width;
      for (size_t k = 0; k < width; ++k) {
        const T sum = low[k] + high[k];
        high[k] = low[k] - high[k];
        low[k] = sum;
      }
    }
  }
  const T magnitude = 1 / std::sqrt(static_cast<T>(size));
  for (T& value : values) value *= magnitude;
}

}  // namespace bitpress
