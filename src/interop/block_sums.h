// A weight whose elements are scale * code + offset, as two: the offsets of its blocks become a
// matrix of their own, and a product adds the sums of its input's blocks times that matrix.
#pragma once

#include <cstdint>
#include <string>

#include "base/tensor.h"
#include "graph/model.h"

namespace bitpress::interop {

// Returns why the readers of a matrix cannot be given the offsets of its blocks; "" if they can:
// they are products, or lookups of rows.
std::string WhyNoBlockSums(const graph::Model& model, const std::string& value, int64_t block_size);

// Adds the offsets to what the readers of a weight compute, and returns the name of their matrix.
// `offsets`: [blocks, outputs] of a MatMul or Gemm, [rows, blocks] of a table. REQUIRES:
// WhyNoBlockSums is "".
std::string AddBlockSums(graph::Model& model, const std::string& value, int64_t block_size,
                         Tensor offsets);

}  // namespace bitpress::interop
