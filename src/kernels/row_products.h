// Products of rows with rows, C += A B', where both matrices lie with the summed dimension along
// memory: second moments of observed positions, and steps on quadratic forms with a symmetric
// matrix.
#pragma once

#include <cstddef>

namespace bitpress::kernels {

// Rows are summed in whole groups of so many elements: the caller pads them with zeros.
inline constexpr size_t kRowProductStep = 16;

// Longest rows of one call: their sums are float32.
inline constexpr size_t kMostRowProductLength = 1 << 14;

// A matrix of which rows are read: element (i, k) at data[i * stride + k].
struct RowMatrix {
  const float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;
};

// out[i * out_stride + j] += sum over k < length of a(i, k) * b(j, k). Sums are float32 (with fused
// multiply-adds where the processor has them) and are added to `out` once; they do not depend on
// how many rows a call has, so that tiles may be computed in any order by any threads. Instruction
// sets round differently. REQUIRES: length is a multiple of kRowProductStep, at most
// kMostRowProductLength.
void AddRowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                    size_t out_stride);

}  // namespace bitpress::kernels
