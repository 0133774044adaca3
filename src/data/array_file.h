// The arrays of one sample file (or of one file for each input): their headers, and their rows as
// they are needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "data/folder.h"

namespace bitpress::data {

class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  // Type and dimensions of each input; no bytes.
  const std::vector<Tensor>& headers() const { return headers_; }
  // Rows [first, first + count) of each input. REQUIRES: all have a first dimension.
  virtual std::vector<Tensor> ReadRows(int64_t first, int64_t count) = 0;
  virtual std::vector<Tensor> Read() = 0;

 protected:
  std::vector<Tensor> headers_;
};

// Opens the files of one sample and looks into them. Throws Error naming the file.
std::unique_ptr<ArrayFile> OpenArrayFile(FileKind kind, const SampleFiles& sample,
                                         const std::vector<std::string>& input_names);

}  // namespace bitpress::data
