// The reader of external tensor data: files beside the model, mapped into memory. The paths come
// from an untrusted file and must stay inside the model's folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/mapped_memory.h"
#include "onnx/onnx_pb.h"

namespace bitpress::graph {

// Bytes and the owner that keeps them alive.
struct TensorStorage {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  bool is_mapped = false;  // the bytes lie in a mapped file

  // Takes mapped bytes out of memory until they are used again.
  void Release() const;
};

// A reader that opens each file once. Not thread-safe. Its results may outlive it.
class ExternalDataReader {
 public:
  explicit ExternalDataReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Returns the bytes of an external tensor. They lie in the mapped file, or are copied if their
  // offset is not a multiple of the element's size. Throws Error(kInvalidModel) if location, offset
  // or length are wrong, Error(kIo) if the file cannot be read.
  TensorStorage Read(const onnx::TensorProto& tensor);
  uint64_t file_bytes() const { return file_bytes_; }  // size of the files that were read so far

 private:
  std::shared_ptr<const MappedFile> Open(const std::string& location, const std::string& tensor);

  std::filesystem::path folder_;
  uint64_t file_bytes_ = 0;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace bitpress::graph
