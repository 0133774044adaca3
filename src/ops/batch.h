// How many samples a model takes at a time: what evaluation, calibration and the check of a model
// ask before they read samples. Pure.
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
  // `dims`: not positive where a dimension is free; empty for a scalar or an unknown rank.
  void AddInput(std::span<const int64_t> dims);
  // Returns the samples of one run, 0 if the inputs take any number. Inputs that fix different
  // first dimensions are no rows of samples: 1.
  size_t num_samples() const { return is_one_ ? 1 : rows_; }

 private:
  size_t rows_ = 0;  // that the last input with a fixed first dimension has
  bool is_one_ = false;
};

// Returns the same for the inputs of a model.
size_t FixedBatchOf(const graph::Model& model);

}  // namespace bitpress::ops
