// The outputs of a model as numbers, for metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/tensor.h"

namespace bitpress::evaluate {

// One output of one run.
struct Output {
  std::vector<int64_t> dims;
  std::vector<double> values;          // empty if the output is not of floating point
  std::vector<int64_t> integers = {};  // likewise, if it is not of integers

  // Returns whether the first dimension counts samples, so that the output has one row a sample.
  bool IsPerSample(size_t batch_size) const {
    return !dims.empty() && dims[0] == static_cast<int64_t>(batch_size);
  }
  // Returns whether the output has the shape [samples, classes]. Further dimensions of 1 are
  // allowed.
  bool HasClassScores(size_t batch_size) const;
  // Returns whether the output may have the scores of the classes of one sample, without a
  // dimension for samples.
  bool IsOneRow(size_t batch_size) const {
    return batch_size == 1 && dims.size() == 1 && values.size() >= 2;
  }
  // Returns one of `num_rows` rows of equal size. REQUIRES: i < num_rows.
  std::span<const double> Row(size_t i, size_t num_rows) const {
    BITPRESS_DCHECK(i < num_rows);
    const size_t size = values.size() / num_rows;
    return std::span(values).subspan(i * size, size);
  }
};

// Returns elements [row * size, (row + 1) * size) of a tensor as numbers. REQUIRES: there are so
// many, and IsFloat of their type.
std::vector<double> RowOf(const Tensor& tensor, size_t row, size_t size);

// Converts a tensor. One of FLOAT, DOUBLE, FLOAT16 or BFLOAT16 gets values, one of BOOL or of
// integers of 8 to 64 bits gets integers, and others get neither.
Output ToOutput(const Tensor& tensor);

}  // namespace bitpress::evaluate
