// The Cholesky factor of a large matrix, on several threads and mostly in float32 products.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace bitpress::finetune {

// Replaces the lower triangle of a symmetric positive matrix, [columns, columns], row-major, by its
// factor L, A = L L'. The upper triangle keeps what it held. Returns whether there is a factor; the
// matrix is spoilt if not.
//
// Products of blocks are float32, so that the factor is that of a matrix which differs from A by
// some 1e-7 of its diagonal. That is for matrices with a ridge, such as those of GPTQ. Matrices up
// to 256 columns are factored in double. Results do not depend on the number of threads.
bool FactorInPlace(std::span<double> matrix, int64_t columns, ThreadPool& pool);

// Does the same in double, on one thread: for matrices that float32 products make not positive.
bool FactorExactly(std::span<double> matrix, int64_t columns);

}  // namespace bitpress::finetune
