#include "data/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"

namespace bitpress::data {
namespace {

std::ifstream OpenForReading(const std::filesystem::path& path) {
  std::ifstream file(SystemPath(path), std::ios::binary);
  if (!file) {
    Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path),
         ErrorText({errno, std::generic_category()}));
  }
  return file;
}

void ReadExactly(std::ifstream& file, void* target, size_t num_bytes) {
  file.read(static_cast<char*>(target), static_cast<std::streamsize>(num_bytes));
  if (static_cast<size_t>(file.gcount()) != num_bytes) {
    Fail(ErrorCode::kIo, "read {} bytes, expected {}", file.gcount(), num_bytes);
  }
}

}  // namespace

Tensor FromFortranOrder(const Tensor& tensor) {
  BITPRESS_DCHECK(ElementBits(tensor.type) > 0 && ElementBits(tensor.type) % 8 == 0);
  const size_t rank = tensor.dims.size();
  const size_t element_bytes = ElementBits(tensor.type) / 8;
  // The strides of the source in elements. The first index varies fastest.
  std::vector<size_t> strides(rank, 1);
  for (size_t i = 1; i < rank; ++i) {
    strides[i] = strides[i - 1] * static_cast<size_t>(tensor.dims[i - 1]);
  }
  Tensor result{.type = tensor.type, .dims = tensor.dims, .bytes = {}};
  result.bytes.resize(tensor.bytes.size());
  std::vector<int64_t> index(rank, 0);
  size_t source = 0;
  for (size_t target = 0; target < result.bytes.size(); target += element_bytes) {
    std::memcpy(result.bytes.data() + target, tensor.bytes.data() + source * element_bytes,
                element_bytes);
    for (size_t i = rank; i-- > 0;) {  // goes to the next index in row-major order
      source += strides[i];
      if (++index[i] < tensor.dims[i]) break;
      source -= strides[i] * static_cast<size_t>(tensor.dims[i]);
      index[i] = 0;
    }
  }
  return result;
}

NpyFile::NpyFile(std::filesystem::path path) : path_(std::move(path)) {
  std::ifstream file = OpenForReading(path_);
  std::error_code error;
  const uintmax_t num_bytes = std::filesystem::file_size(path_, error);
  if (error) Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path_), ErrorText(error));
  header_ = WithContext(PathText(path_), [&] {
    return ReadNpyHeader([&](void* target, size_t count) { ReadExactly(file, target, count); },
                         num_bytes);
  });
}

Tensor NpyFile::Read() const {
  Tensor result{.type = header_.type, .dims = header_.dims, .bytes = {}};
  result.bytes.resize(NumBytes(result.type, result.num_elements()));
  std::ifstream file = OpenForReading(path_);
  file.seekg(static_cast<std::streamoff>(header_.num_header_bytes));
  WithContext(PathText(path_),
              [&] { ReadExactly(file, result.bytes.data(), result.bytes.size()); });
  return header_.is_fortran_order ? FromFortranOrder(result) : result;
}

bool NpyFile::IsScattered() const { return header_.is_fortran_order && header_.dims.size() > 1; }

// Returns bytes of the array as they are in row-major order.
std::vector<std::byte> NpyFile::ReadBytes(uint64_t first, uint64_t count) {
  std::vector<std::byte> bytes(count);
  if (IsScattered()) {
    if (kept_.bytes.empty()) kept_ = Read();
    std::copy_n(kept_.bytes.begin() + static_cast<std::ptrdiff_t>(first), count, bytes.begin());
    if (first + count == kept_.bytes.size()) kept_ = {};
    return bytes;
  }
  std::ifstream file = OpenForReading(path_);
  file.seekg(static_cast<std::streamoff>(header_.num_header_bytes + first));
  WithContext(PathText(path_), [&] { ReadExactly(file, bytes.data(), bytes.size()); });
  return bytes;
}

Tensor NpyFile::ReadRows(int64_t first, int64_t count) {
  BITPRESS_DCHECK(!header_.dims.empty());
  BITPRESS_DCHECK(first >= 0 && count >= 0 && count <= header_.dims[0] - first);
  Tensor result{.type = header_.type, .dims = header_.dims, .bytes = {}};
  result.dims[0] = count;
  const uint64_t num_bytes = NumBytes(result.type, result.num_elements());
  const uint64_t num_row_bytes = count > 0 ? num_bytes / static_cast<uint64_t>(count) : 0;
  result.bytes = ReadBytes(num_row_bytes * static_cast<uint64_t>(first), num_bytes);
  return result;
}

Tensor NpyFile::ReadElements(int64_t first, int64_t count) {
  BITPRESS_DCHECK(first >= 0 && count >= 0 && count <= NumElements(header_.dims) - first);
  const uint64_t num_element_bytes = ElementBits(header_.type) / 8;
  return {.type = header_.type,
          .dims = {count},
          .bytes = ReadBytes(num_element_bytes * static_cast<uint64_t>(first),
                             num_element_bytes * static_cast<uint64_t>(count))};
}

}  // namespace bitpress::data
