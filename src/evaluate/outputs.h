// What a model gave, as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace bitpress::evaluate {

// One output of one run.
struct Output {
  std::vector<int64_t> dims;
  std::vector<double> values;  // empty if it is no floating-point output

  // Rows of equal size, one a sample, where the first dimension counts samples.
  bool IsPerSample(size_t batch_size) const {
    return !dims.empty() && dims[0] == static_cast<int64_t>(batch_size);
  }
  // [samples, classes], further dimensions of 1 allowed.
  bool HasClassScores(size_t batch_size) const;
  std::span<const double> Row(size_t i, size_t num_rows) const {
    const size_t size = values.size() / num_rows;
    return std::span(values).subspan(i * size, size);
  }
};

// FLOAT, DOUBLE, FLOAT16 and BFLOAT16 have values.
Output ToOutput(const Tensor& tensor);

}  // namespace bitpress::evaluate
