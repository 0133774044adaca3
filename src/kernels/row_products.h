// Products of rows with rows, C += A B', where both matrices lie with the summed dimension along
// memory: second moments of observed positions, and steps on quadratic forms with a symmetric
// matrix.
#pragma once

#include <cstddef>

namespace bitpress::kernels {

// Rows are summed in whole groups of so many elements: the caller pads them with zeros. Each
// element of a group has a sum of its own.
inline constexpr size_t kRowProductStep = 16;

// Longest rows of one call: their sums are float32.
inline constexpr size_t kMostRowProductLength = 1 << 14;

// A matrix of which rows are read: element (i, k) at data[i * stride + k].
struct RowMatrix {
  const float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;
};

// out[i * out_stride + j] += sum over k < length of a(i, k) * b(j, k). The sum is float32, by fused
// multiply-adds in this order, whatever the instruction set: sums[k % kRowProductStep] takes over
// products for k = 0, 1, ...; then sums[n] += sums[n + half] for all n < half, with half = 8, 4, 2,
// 1. So results do not depend on the processor, nor on how many rows a call has: tiles may be
// computed in any order by any threads. Processors without fused multiply-adds take some ten times
// as long for the same bits. REQUIRES: length is a multiple of kRowProductStep, at most
// kMostRowProductLength.
void AddRowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                    size_t out_stride);

}  // namespace bitpress::kernels
