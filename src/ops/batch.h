// The number of samples that a model takes in one run. Evaluation, calibration and the check of a
// model ask for it before they read samples. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/model.h"

namespace bitpress::ops {

// The batch of a model, from the shapes of its inputs. A first dimension that is fixed is the
// batch; inputs that leave it free, or have none, take as many rows as the others.
class FixedBatch {
 public:
  // Adds an input of these dimensions. A free dimension is 0 or negative; `dims` is empty for a
  // scalar or an unknown rank.
  void AddInput(std::span<const int64_t> dims);
  // Returns the number of samples in one run, or 0 if the inputs take any number. Returns 1 if the
  // inputs fix different first dimensions, because they are no rows of samples then.
  size_t num_samples() const { return is_one_ ? 1 : rows_; }

 private:
  size_t rows_ = 0;  // first dimension of the last input that fixes it
  bool is_one_ = false;
};

// Returns the number of samples in one run of `model`, as FixedBatch::num_samples has it.
size_t FixedBatchOf(const graph::Model& model);

}  // namespace bitpress::ops
