// Products of rows with rows, C += A B', for matrices whose summed dimension lies along memory.
// Fine-tuning uses them for second moments of observed positions, and for steps on quadratic forms
// with a symmetric matrix.
#pragma once

#include <cstddef>

namespace bitpress::kernels {

// The number of elements of a group. Rows are summed in whole groups, so the caller pads them with
// zeros. Each element of a group has a sum of its own.
inline constexpr size_t kRowProductStep = 16;

// The longest rows of one call, whose sums are float32.
inline constexpr size_t kMostRowProductLength = 1 << 14;

// A matrix whose rows are read. Element (i, k) is data[i * stride + k].
struct RowMatrix {
  const float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;
};

// Adds the sum over k < length of a(i, k) * b(j, k) to out[i * out_stride + j]. The sum is float32,
// by fused multiply-adds in this order, whatever the instruction set: sums[k % kRowProductStep]
// takes the products for k = 0, 1, ...; then sums[n] += sums[n + half] for all n < half, with half
// = 8, 4, 2, 1. So results depend neither on the processor nor on the number of rows of a call, and
// any threads may compute tiles in any order. Processors without fused multiply-adds take some ten
// times as long for the same bits. REQUIRES: length is a multiple of kRowProductStep, at most
// kMostRowProductLength; rows do not overlap.
void AddRowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                    size_t out_stride);
// Writes these float32 sums to out[i * out_stride + j] instead of adding them.
void RowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, float* out,
                 size_t out_stride);

}  // namespace bitpress::kernels
