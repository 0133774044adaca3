// Random floats for tests and benches. Not part of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bitpress {

// Returns normally distributed floats, the same for the same seed.
inline std::vector<float> RandomNormal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace bitpress
