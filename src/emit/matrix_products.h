// Passes that replace products with packed weights by operators on the codes share this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::emit {

// Returns why a reader of a weight is no plain product with it, "" if it is one: a MatMul, or a
// Gemm with alpha and beta 1 that adds a vector or nothing. The weight, of dimensions `dims`, is
// its right matrix and has its blocks along `axis`, which runs along the sums. REQUIRES: the reader
// is a standard MatMul or Gemm.
std::string WhyNoMatrixProduct(const graph::Model& model, const graph::Use& use, int64_t axis,
                               const std::vector<int64_t>& dims);

// Removes the functions that decode weights and that no node calls any more.
void RemoveUnusedDecoders(graph::Model& model);

}  // namespace bitpress::emit
