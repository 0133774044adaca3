// Helpers of this room's tests: models and random tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "base/test_support.h"

namespace bitpress::runtime {

inline std::filesystem::path TestModel(const std::string& name) {
  return std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" / "data" / "runtime" / name;
}

// Returns numbers that look random, the same in each run.
inline Tensor MakeNoise(std::vector<int64_t> dims) {
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  uint32_t state = 12345;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return MakeTensor<float>(DataType::kFloat, std::move(dims), values);
}

}  // namespace bitpress::runtime
