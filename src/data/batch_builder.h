// A builder of batches, by which sources join samples along the first dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

// Returns the first dimension if all inputs of a sample file agree in it and rows can be cut there.
// Otherwise they have no batch dimension, and it returns -1. Only types and dimensions are looked
// at. REQUIRES: there are inputs.
int64_t CommonRows(const std::vector<Tensor>& inputs);

// Returns rows [first, first + count). REQUIRES: CommonRows is not -1, and there are so many rows.
Tensor CutRows(const Tensor& tensor, int64_t first, int64_t count);

// Returns whether samples of the type `found` become ones of the input's type `wanted`: DOUBLE
// becomes FLOAT.
bool IsConverted(DataType found, DataType wanted);

// Converts the inputs of a sample, with bytes or without, to the types `wanted`. More inputs than
// types stay as they are.
void ConvertTypes(std::span<const DataType> wanted, std::vector<Tensor>& inputs);

class BatchBuilder {
 public:
  // Returns whether tensors of these types and shapes can be appended: the batch is empty, or all
  // but the first dimension agree.
  bool Accepts(const std::vector<Tensor>& inputs) const;

  // Appends rows. REQUIRES: Accepts(inputs); `names` has one entry for each sample, and so has
  // `labels`, unless it is empty.
  void Append(std::vector<Tensor> inputs, const std::vector<std::string>& names,
              std::span<const int64_t> labels);

  size_t num_samples() const { return batch_.num_samples; }
  // Returns the batch and starts an empty one.
  Batch Take();

 private:
  Batch batch_;
};

}  // namespace bitpress::data
