#include "calibrate/tensor_files.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/paths.h"

namespace bitpress::calibrate {
namespace {

namespace fs = std::filesystem;

// The head of a tensor's file; its dimensions and bytes follow.
struct FileHead {
  int32_t type = 0;
  uint32_t num_dims = 0;
  uint64_t num_bytes = 0;
};

void WriteTensor(const fs::path& path, const Tensor& tensor) {
  std::ofstream file(SystemPath(path), std::ios::binary | std::ios::trunc);
  const FileHead head{static_cast<int32_t>(tensor.type), static_cast<uint32_t>(tensor.dims.size()),
                      tensor.bytes.size()};
  file.write(reinterpret_cast<const char*>(&head), sizeof(head));
  file.write(reinterpret_cast<const char*>(tensor.dims.data()),
             static_cast<std::streamsize>(tensor.dims.size() * sizeof(int64_t)));
  file.write(reinterpret_cast<const char*>(tensor.bytes.data()),
             static_cast<std::streamsize>(tensor.bytes.size()));
  if (!file.flush()) {
    Fail(ErrorCode::kIo, "cannot write {} bytes to '{}' (TMPDIR names the folder)",
         tensor.bytes.size(), PathText(path));
  }
}

Tensor ReadTensor(const fs::path& path) {
  std::ifstream file(SystemPath(path), std::ios::binary);
  FileHead head;
  file.read(reinterpret_cast<char*>(&head), sizeof(head));
  if (!file) Fail(ErrorCode::kIo, "cannot read '{}'", PathText(path));
  Tensor tensor{static_cast<DataType>(head.type), std::vector<int64_t>(head.num_dims), {}};
  tensor.bytes.resize(head.num_bytes);
  file.read(reinterpret_cast<char*>(tensor.dims.data()),
            static_cast<std::streamsize>(head.num_dims * sizeof(int64_t)));
  file.read(reinterpret_cast<char*>(tensor.bytes.data()),
            static_cast<std::streamsize>(head.num_bytes));
  if (!file) Fail(ErrorCode::kIo, "cannot read '{}'", PathText(path));
  return tensor;
}

}  // namespace

void TensorFiles::Put(const std::string& name, size_t number, const Tensor& tensor) {
  Name& of_name = names_.try_emplace(name, Name{names_.size()}).first->second;
  const fs::path path = folder_.path() / fmt::format("{}_{}", of_name.index, number);
  WriteTensor(path, tensor);
  of_name.files[number] = path;
}

Tensor TensorFiles::Get(const std::string& name, size_t number) const {
  return ReadTensor(names_.at(name).files.at(number));
}

void TensorFiles::Remove(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) return;
  for (const auto& [number, path] : found->second.files) {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  found->second.files.clear();
}

}  // namespace bitpress::calibrate
