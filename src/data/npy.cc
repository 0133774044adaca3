#include "data/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace bitpress::data {
namespace {

std::ifstream OpenForReading(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    Fail(ErrorCode::kIo, "cannot read '{}': {}", path.string(),
         std::generic_category().message(errno));
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
  if (error) Fail(ErrorCode::kIo, "cannot read '{}': {}", path_.string(), error.message());
  header_ = WithContext(path_.string(), [&] {
    return ReadNpyHeader([&](void* target, size_t count) { ReadExactly(file, target, count); },
                         num_bytes);
  });
}

Tensor NpyFile::Read() const {
  Tensor result{.type = header_.type, .dims = header_.dims, .bytes = {}};
  result.bytes.resize(NumBytes(result.type, result.num_elements()));
  std::ifstream file = OpenForReading(path_);
  file.seekg(static_cast<std::streamoff>(header_.num_header_bytes));
  WithContext(path_.string(), [&] { ReadExactly(file, result.bytes.data(), result.bytes.size()); });
  return header_.is_fortran_order ? FromFortranOrder(result) : result;
}

Tensor NpyFile::ReadRows(int64_t first, int64_t count) const {
  BITPRESS_DCHECK(!header_.dims.empty());
  BITPRESS_DCHECK(first >= 0 && count >= 0 && count <= header_.dims[0] - first);
  Tensor result{.type = header_.type, .dims = header_.dims, .bytes = {}};
  result.dims[0] = count;
  const uint64_t num_bytes = NumBytes(result.type, result.num_elements());
  const uint64_t num_row_bytes = count > 0 ? num_bytes / static_cast<uint64_t>(count) : 0;
  const uint64_t begin = num_row_bytes * static_cast<uint64_t>(first);
  if (header_.is_fortran_order && header_.dims.size() > 1) {
    const Tensor whole = Read();
    const auto from = whole.bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    result.bytes.assign(from, from + static_cast<std::ptrdiff_t>(num_bytes));
    return result;
  }
  result.bytes.resize(num_bytes);
  std::ifstream file = OpenForReading(path_);
  file.seekg(static_cast<std::streamoff>(header_.num_header_bytes + begin));
  WithContext(path_.string(), [&] { ReadExactly(file, result.bytes.data(), result.bytes.size()); });
  return result;
}

}  // namespace bitpress::data
