#include "ops/batch.h"

#include <string>
#include <vector>

namespace bitpress::ops {

void FixedBatch::AddInput(std::span<const int64_t> dims) {
  if (dims.empty() || dims[0] <= 0) return;
  const auto rows = static_cast<size_t>(dims[0]);
  is_one_ = is_one_ || (rows_ != 0 && rows_ != rows);
  rows_ = rows;
}

size_t FixedBatchOf(const graph::Model& model) {
  FixedBatch batch;
  for (const std::string& input : model.InputNames()) {
    std::vector<int64_t> dims;
    for (const graph::Dimension& dim : model.InfoOf(input).shape) dims.push_back(dim.value);
    batch.AddInput(dims);
  }
  return batch.num_samples();
}

}  // namespace bitpress::ops
