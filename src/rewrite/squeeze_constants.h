// Drops leading dimensions of 1 from the constants of matrix products: weights of [1, K, N] and
// biases of [1, N]. Prepare runs it, so that every later step sees the matrix and the vector that
// integer kernels, MatMulNBits and our own products take. Pure.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::rewrite {

// Returns the number of constants that changed. A constant keeps its name. It stays as it is if one
// of its readers needs the dimensions, or may need them because a rank is unknown.
size_t SqueezeConstants(graph::Model& model);

}  // namespace bitpress::rewrite
