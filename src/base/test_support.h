// Helpers for the rooms' tests: expected errors, temporary folders, random floats, small tensors.
// Not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/random_normal.h"
#include "base/scratch_folder.h"
#include "base/tensor.h"

namespace bitpress {

// Calls `function`, which must throw Error(code), and returns the message.
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

// A folder that is removed after the test.
class TemporaryFolder {
 public:
  std::filesystem::path operator/(std::string_view name) const { return path() / PathOf(name); }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      names.push_back(PathText(entry.path().filename()));
    }
    return names;
  }
  size_t NumFiles() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path()), {}));
  }

 private:
  ScratchFolder folder_;
};

// Writes a file, and creates its folder if there is none.
inline void WriteBytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

template <typename T>
Tensor MakeTensor(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor tensor{.type = type, .dims = std::move(dims), .bytes = {}};
  tensor.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace bitpress
