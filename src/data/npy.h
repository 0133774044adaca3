// NumPy's array files, in which users give samples: .npy (versions 1 to 3, C and Fortran order,
// little-endian numbers and bools) and .npz (a zip of them). Sizes are checked against the file
// before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace bitpress::data {

struct NpyHeader {
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  bool is_fortran_order = false;
  uint64_t num_header_bytes = 0;  // bytes before the data
};

// A function that reads `num_bytes` bytes to `target`, or throws.
using ReadFunction = std::function<void(void* target, size_t num_bytes)>;

// Reads a header and checks that exactly its array follows in a file of `num_file_bytes` bytes.
// Throws Error(kInvalidArgument), or Error(kUnsupported) for an element type that we do not have.
NpyHeader ReadNpyHeader(const ReadFunction& read, uint64_t num_file_bytes);

// Returns the elements of a tensor in column-major order in row-major order. REQUIRES: an element
// takes whole bytes.
Tensor FromFortranOrder(const Tensor& tensor);

// One .npy file, of which only the header is kept. An array in Fortran order has its rows all over
// the file: it is read whole, and kept from the first part that is asked for to its last element.
class NpyFile {
 public:
  explicit NpyFile(std::filesystem::path path);
  const NpyHeader& header() const { return header_; }
  Tensor Read() const;
  // Returns rows [first, first + count) along the first dimension. REQUIRES: there is a first
  // dimension, with so many rows.
  Tensor ReadRows(int64_t first, int64_t count);
  // Returns elements [first, first + count) in row-major order as a vector. REQUIRES: there are so
  // many.
  Tensor ReadElements(int64_t first, int64_t count);

 private:
  std::vector<std::byte> ReadBytes(uint64_t first, uint64_t count);
  bool IsScattered() const;

  std::filesystem::path path_;
  NpyHeader header_;
  Tensor kept_;  // the whole array, in row-major order; without bytes: nothing is kept
};

// One .npz file, open while this object lives.
class NpzFile {
 public:
  explicit NpzFile(const std::filesystem::path& path);
  ~NpzFile();
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;

  const std::vector<std::string>& names() const;  // names of the arrays, without ".npy"
  NpyHeader Header(size_t index) const;
  Tensor Read(size_t index) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::data
