// Joins samples to a batch along the first dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

class BatchBuilder {
 public:
  // True if tensors of these types and shapes can be appended: nothing is there yet, or all but the
  // first dimension agree.
  bool Accepts(const std::vector<Tensor>& inputs) const;

  // Appends rows. REQUIRES: Accepts(inputs); `names` has one entry for each sample.
  void Append(std::vector<Tensor> inputs, const std::vector<std::string>& names,
              std::optional<int64_t> label);

  size_t num_samples() const { return batch_.num_samples; }
  Batch Take();

 private:
  Batch batch_;
};

}  // namespace bitpress::data
