// Helpers of this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace bitpress::runtime {

inline std::filesystem::path TestModel(const std::string& name) {
  return std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" / "data" / "runtime" / name;
}

template <typename T>
Tensor MakeTensor(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor tensor{.type = type, .dims = std::move(dims), .bytes = {}};
  tensor.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// Numbers that look random, the same in each run.
inline Tensor MakeNoise(std::vector<int64_t> dims) {
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  uint32_t state = 12345;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return MakeTensor<float>(DataType::kFloat, std::move(dims), values);
}

// Calls `function`, which must throw Error(code); returns the message.
template <typename Function>
std::string ExpectError(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// A folder that is gone after the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "bitpress_runtime_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bitpress::runtime
