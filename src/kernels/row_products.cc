#include "kernels/row_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_products.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kRowProductStep> kD;
using V = hn::VFromD<decltype(kD)>;

// kA rows with kB rows: every loaded vector takes part in several products, and the sums stay in
// registers.
template <size_t kA, size_t kB>
HWY_INLINE void AddTile(const float* a, size_t a_stride, const float* b, size_t b_stride,
                        size_t length, double* out, size_t out_stride) {
  V sums[kA][kB];
  for (size_t i = 0; i < kA; ++i) {
    for (size_t j = 0; j < kB; ++j) sums[i][j] = hn::Zero(kD);
  }
  for (size_t k = 0; k < length; k += hn::Lanes(kD)) {
    V row_b[kB];
    for (size_t j = 0; j < kB; ++j) row_b[j] = hn::LoadU(kD, b + j * b_stride + k);
    for (size_t i = 0; i < kA; ++i) {
      const V row_a = hn::LoadU(kD, a + i * a_stride + k);
      for (size_t j = 0; j < kB; ++j) sums[i][j] = hn::MulAdd(row_a, row_b[j], sums[i][j]);
    }
  }
  for (size_t i = 0; i < kA; ++i) {
    for (size_t j = 0; j < kB; ++j) {
      out[i * out_stride + j] += static_cast<double>(hn::GetLane(hn::SumOfLanes(kD, sums[i][j])));
    }
  }
}

template <size_t kA>
HWY_INLINE void AddStrip(const float* a, size_t a_stride, const RowMatrix& b, size_t length,
                         double* out, size_t out_stride) {
  size_t j = 0;
  for (; j + 4 <= b.num_rows; j += 4) {
    AddTile<kA, 4>(a, a_stride, b.data + j * b.stride, b.stride, length, out + j, out_stride);
  }
  for (; j < b.num_rows; ++j) {
    AddTile<kA, 1>(a, a_stride, b.data + j * b.stride, b.stride, length, out + j, out_stride);
  }
}

void AddProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                 size_t out_stride) {
  size_t i = 0;
  for (; i + 4 <= a.num_rows; i += 4) {
    AddStrip<4>(a.data + i * a.stride, a.stride, b, length, out + i * out_stride, out_stride);
  }
  for (; i < a.num_rows; ++i) {
    AddStrip<1>(a.data + i * a.stride, a.stride, b, length, out + i * out_stride, out_stride);
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using ProductsKernel = void (*)(const RowMatrix&, const RowMatrix&, size_t, double*, size_t);
constexpr ProductsKernel kProductsTable[] = BITPRESS_DISPATCH_TABLE(AddProducts);

void AddRowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                    size_t out_stride) {
  kProductsTable[ChosenTargetIndex()](a, b, length, out, out_stride);
}

}  // namespace bitpress::kernels
#endif
