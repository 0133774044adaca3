#include "graph/external_data.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/mapped_memory.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;

std::string Entry(const onnx::TensorProto& tensor, std::string_view key) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == key) return entry.value();
  }
  return "";
}

std::optional<uint64_t> NumberEntry(const onnx::TensorProto& tensor, std::string_view key) {
  const std::string text = Entry(tensor, key);
  if (text.empty()) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    Fail(ErrorCode::kInvalidModel,
         "tensor '{}': {} of its external data is '{}', expected a number of bytes", tensor.name(),
         key, text);
  }
  return number;
}

bool IsInside(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() && in_path != path.end();
}

// Returns the real path of `location`. It follows symbolic links before it decides whether the path
// is inside the folder, because a link may point elsewhere.
fs::path ResolveLocation(const fs::path& folder, const std::string& location,
                         const std::string& tensor) {
  const fs::path relative = PathOf(location).lexically_normal();
  if (!StaysInside(location) || relative.is_absolute() || *relative.begin() == "..") {
    Fail(ErrorCode::kInvalidModel,
         "tensor '{}': its external data is in '{}', expected a relative path inside the model's "
         "folder, on Windows too",
         tensor, location.substr(0, location.find('\0')));
  }
  std::error_code code;
  const fs::path base = fs::canonical(folder, code);
  const fs::path path = code ? fs::path() : fs::canonical(base / relative, code);
  if (code) {
    Fail(ErrorCode::kIo, "cannot read '{}', the external data of tensor '{}': {}",
         PathText(folder / relative), tensor, ErrorText(code));
  }
  if (!IsInside(path, base)) {
    Fail(ErrorCode::kInvalidModel,
         "tensor '{}': its external data '{}' is a link that leaves the model's folder; copy the "
         "file '{}' beside the model",
         tensor, location, PathText(path));
  }
  return path;
}

}  // namespace

std::shared_ptr<const MappedFile> ExternalDataReader::Open(const std::string& location,
                                                           const std::string& tensor) {
  auto& slot = files_[location];
  if (slot) return slot;
  const fs::path path = ResolveLocation(folder_, location, tensor);
  const auto fail = [&](std::string_view why) {
    Fail(ErrorCode::kIo, "cannot read '{}', the external data of tensor '{}': {}", PathText(path),
         tensor, why);
  };
  std::error_code error;
  const SystemFile opened(path, SystemFile::Use::kReadRegular, error);
  if (error) fail(ErrorText(error));
  if (opened.kind() != SystemFile::Kind::kRegular) fail("not a regular file");
  auto file = std::make_shared<MappedFile>(opened, error);
  if (error) fail(ErrorText(error));
  file_bytes_ += file->bytes().size();
  slot = std::move(file);
  return slot;
}

void TensorStorage::Release() const {
  if (is_mapped) ReleasePages(bytes);
}

TensorStorage ExternalDataReader::Read(const onnx::TensorProto& tensor) {
  const uint64_t expected = ExpectedBytes(tensor);
  if (tensor.data_type() == onnx::TensorProto::STRING) {
    Fail(ErrorCode::kInvalidModel, "tensor '{}' holds strings, which cannot be external data",
         tensor.name());
  }
  const std::string location = Entry(tensor, "location");
  const uint64_t offset = NumberEntry(tensor, "offset").value_or(0);
  const uint64_t length = NumberEntry(tensor, "length").value_or(expected);
  if (length != expected) {
    Fail(ErrorCode::kInvalidModel, "tensor '{}': its external data has {} bytes, but {} takes {}",
         tensor.name(), length, DescribeType(tensor), expected);
  }
  const std::shared_ptr<const MappedFile> file = Open(location, tensor.name());
  if (offset > file->bytes().size() || length > file->bytes().size() - offset) {
    Fail(ErrorCode::kInvalidModel,
         "tensor '{}': its external data are {} bytes at offset {} of '{}', which has only {} "
         "bytes",
         tensor.name(), length, offset, location, file->bytes().size());
  }
  TensorStorage storage{file, file->bytes().subspan(offset, length), true};
  const size_t alignment = std::clamp<size_t>(ElementBits(TypeOf(tensor)) / 8, 1, 8);
  if (offset % alignment != 0) {
    auto copy =
        std::make_shared<std::vector<std::byte>>(storage.bytes.begin(), storage.bytes.end());
    storage.bytes = *copy;
    storage.owner = std::move(copy);
    storage.is_mapped = false;
  }
  return storage;
}

}  // namespace bitpress::graph
