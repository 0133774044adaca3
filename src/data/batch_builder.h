// Joins samples to a batch along the first dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

// The first dimension if all inputs of a sample file agree in it and rows can be cut there,
// otherwise -1: they have no batch dimension. Only types and dimensions are looked at. REQUIRES:
// not empty.
int64_t CommonRows(const std::vector<Tensor>& inputs);

// Rows [first, first + count). REQUIRES: CommonRows is not -1, and there are so many.
Tensor CutRows(const Tensor& tensor, int64_t first, int64_t count);

class BatchBuilder {
 public:
  // True if tensors of these types and shapes can be appended: nothing is there yet, or all but the
  // first dimension agree.
  bool Accepts(const std::vector<Tensor>& inputs) const;

  // Appends rows. REQUIRES: Accepts(inputs); `names` has one entry for each sample, and so has
  // `labels`, unless there are none.
  void Append(std::vector<Tensor> inputs, const std::vector<std::string>& names,
              std::span<const int64_t> labels);

  size_t num_samples() const { return batch_.num_samples; }
  Batch Take();

 private:
  Batch batch_;
};

}  // namespace bitpress::data
