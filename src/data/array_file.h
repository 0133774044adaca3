// The arrays of one sample file, or of one file for each input. A source reads their headers first,
// and their rows when it needs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "data/folder.h"
#include "data/source.h"

namespace bitpress::data {

class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  // Returns type and dimensions of each input, without bytes.
  const std::vector<Tensor>& headers() const { return headers_; }
  // Returns rows [first, first + count) of each input. REQUIRES: all inputs have a first dimension,
  // with so many rows.
  virtual std::vector<Tensor> ReadRows(int64_t first, int64_t count) = 0;
  // Returns the whole inputs.
  virtual std::vector<Tensor> Read() = 0;

 protected:
  std::vector<Tensor> headers_;
};

// Opens the files of one sample and reads their headers. Throws Error naming the file.
// Its arrays have the types that `options` wants of the inputs, where ConvertTypes converts them.
std::unique_ptr<ArrayFile> OpenArrayFile(FileKind kind, const SampleFiles& sample,
                                         const SourceOptions& options);

}  // namespace bitpress::data
