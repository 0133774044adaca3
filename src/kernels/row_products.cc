#include "kernels/row_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_products.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void Put(float sum, double& out) { out += double{sum}; }
HWY_INLINE void Put(float sum, float& out) { out = sum; }

#if HWY_NATIVE_FMA

constexpr hn::CappedTag<float, kRowProductStep> kD;
using V = hn::VFromD<decltype(kD)>;
constexpr size_t kLanes = hn::MaxLanes(kD);
constexpr size_t kParts = kRowProductStep / kLanes;  // vectors that hold the sums of one product

// Adds the lanes of a vector: the upper half to the lower one, until one is left.
template <class D>
HWY_INLINE float SumOfVector(D d, hn::VFromD<D> v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return SumOfVector(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    alignas(16) float sums[4];
    hn::Store(v, d, sums);
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
}

// Returns the sums of the lanes of 16 vectors of 16, each added up as by SumOfVector. The result
// has the sum of rows[k][l] in lane 4 k + l. Lanes of several vectors are added together, so that
// it takes a third of the instructions.
template <class D>
HWY_INLINE hn::VFromD<D> SumsOfVectors(D d, const hn::VFromD<D> rows[4][4]) {
  using W = hn::VFromD<D>;
  const hn::Repartition<uint64_t, D> wide;
  const auto lower_pairs = [&](W a, W b) {
    return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  const auto upper_pairs = [&](W a, W b) {
    return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  constexpr size_t kOrder[4] = {0, 2, 1, 3};  // what the steps below make of the order
  W fours[4];                                 // blocks of 4 lanes that are left of a vector
  for (size_t i = 0; i < 4; ++i) {
    W halves[2];
    for (size_t j = 0; j < 2; ++j) {
      const W a = rows[kOrder[2 * j]][kOrder[i]];
      const W b = rows[kOrder[2 * j + 1]][kOrder[i]];
      halves[j] = hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    }
    fours[i] = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(halves[1]), halves[0]),
                       hn::OddEvenBlocks(halves[1], hn::SwapAdjacentBlocks(halves[0])));
  }
  W pairs[2];
  for (size_t i = 0; i < 2; ++i) {
    pairs[i] = hn::Add(lower_pairs(fours[2 * i], fours[2 * i + 1]),
                       upper_pairs(fours[2 * i], fours[2 * i + 1]));
  }
  const W lower = hn::InterleaveLower(d, pairs[0], pairs[1]);
  const W upper = hn::InterleaveUpper(d, pairs[0], pairs[1]);
  return hn::Add(lower_pairs(lower, upper), upper_pairs(lower, upper));
}

// Puts out the products of kA rows with kB rows. Every loaded vector takes part in several
// products, and the sums stay in registers.
template <size_t kA, size_t kB, typename Out>
HWY_INLINE void AddTile(const float* a, size_t a_stride, const float* b, size_t b_stride,
                        size_t length, Out* out, size_t out_stride) {
  V sums[kA][kB][kParts];
  const auto for_products = [&](const auto& run) HWY_ATTR {
    Unroll<kA>([&](auto i) HWY_ATTR { Unroll<kB>([&](auto j) HWY_ATTR { run(i, j); }); });
  };
  for_products([&](auto i, auto j) HWY_ATTR {
    Unroll<kParts>([&](auto part) HWY_ATTR { sums[i][j][part] = hn::Zero(kD); });
  });
  for (size_t k = 0; k < length; k += kRowProductStep) {
    Unroll<kParts>([&](auto part) HWY_ATTR {
      const size_t at = k + part * kLanes;
      V row_b[kB];
      Unroll<kB>([&](auto j) HWY_ATTR { row_b[j] = hn::LoadU(kD, b + j * b_stride + at); });
      Unroll<kA>([&](auto i) HWY_ATTR {
        const V row_a = hn::LoadU(kD, a + i * a_stride + at);
        Unroll<kB>([&](auto j) HWY_ATTR {
          sums[i][j][part] = hn::MulAdd(row_a, row_b[j], sums[i][j][part]);
        });
      });
    });
  }
  if constexpr (kParts == 1 && kA == 4 && kB == 4) {
    V vectors[4][4];
    for_products([&](auto i, auto j) HWY_ATTR { vectors[i][j] = sums[i][j][0]; });
    alignas(64) float results[16];
    hn::Store(SumsOfVectors(kD, vectors), kD, results);
    for (size_t i = 0; i < kA; ++i) {
      for (size_t j = 0; j < kB; ++j) Put(results[4 * i + j], out[i * out_stride + j]);
    }
    return;
  }
  for_products([&](auto i, auto j) HWY_ATTR {
    if constexpr (kParts == 4) {
      sums[i][j][0] = hn::Add(sums[i][j][0], sums[i][j][2]);
      sums[i][j][1] = hn::Add(sums[i][j][1], sums[i][j][3]);
    }
    if constexpr (kParts >= 2) sums[i][j][0] = hn::Add(sums[i][j][0], sums[i][j][1]);
    Put(SumOfVector(kD, sums[i][j][0]), out[i * out_stride + j]);
  });
}

// The rows of each matrix for whose sums the registers have room: 32 with 512 bits, 16 with 256.
constexpr size_t kTileA = kParts == 1 ? 4 : 3;
constexpr size_t kTileB = kParts == 1 ? 4 : 2;

#else

// Vectors of this target have no fused multiply-add, but the processor may have one.
#ifdef __FP_FAST_FMAF
constexpr bool kHasFastFma = true;
#else
constexpr bool kHasFastFma = false;
#endif

constexpr hn::CappedTag<double, 2> kD;
constexpr hn::Rebind<float, decltype(kD)> kNarrow;
constexpr hn::RebindToUnsigned<decltype(kD)> kBits;

// The sums of fused multiply-adds without an instruction for them. The product of two floats is
// exact in double; only its sum with a third is rounded twice, to double and to float.
struct Sums {
  float values[kRowProductStep] = {};

  HWY_INLINE void AddProducts(const float* a, const float* b) {
    if constexpr (kHasFastFma) return AddFused(a, b);
    float rounded[kRowProductStep];
    auto unsure = hn::Zero(kBits);
    for (size_t i = 0; i < kRowProductStep; i += hn::Lanes(kD)) {
      const auto wide_a = hn::PromoteTo(kD, hn::LoadU(kNarrow, a + i));
      const auto wide_b = hn::PromoteTo(kD, hn::LoadU(kNarrow, b + i));
      const auto sum =
          hn::MulAdd(wide_a, wide_b, hn::PromoteTo(kD, hn::LoadU(kNarrow, values + i)));
      hn::StoreU(hn::DemoteTo(kNarrow, sum), kNarrow, rounded + i);
      // Rounding twice differs from rounding once only where the first gives the middle between two
      // floats. Below the normal floats the middle lies elsewhere.
      const auto dropped = hn::And(hn::BitCast(kBits, sum), hn::Set(kBits, (1u << 29) - 1));
      const auto is_middle = hn::Eq(dropped, hn::Set(kBits, 1u << 28));
      const auto is_small =
          hn::And(hn::Lt(hn::Abs(sum), hn::Set(kD, 0x1p-126)), hn::Ne(sum, hn::Zero(kD)));
      unsure = hn::Or(unsure, hn::Or(hn::VecFromMask(kBits, is_middle),
                                     hn::BitCast(kBits, hn::VecFromMask(kD, is_small))));
    }
    if (hn::AllTrue(kBits, hn::Eq(unsure, hn::Zero(kBits)))) {
      std::copy(rounded, rounded + kRowProductStep, values);
    } else {
      AddFused(a, b);
    }
  }

  HWY_INLINE void AddFused(const float* a, const float* b) {
    for (size_t i = 0; i < kRowProductStep; ++i) values[i] = std::fma(a[i], b[i], values[i]);
  }

  float SumInOrder() {
    for (size_t half = kRowProductStep / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) values[i] += values[i + half];
    }
    return values[0];
  }
};

template <size_t kA, size_t kB, typename Out>
HWY_INLINE void AddTile(const float* a, size_t a_stride, const float* b, size_t b_stride,
                        size_t length, Out* out, size_t out_stride) {
  for (size_t i = 0; i < kA; ++i) {
    for (size_t j = 0; j < kB; ++j) {
      Sums sums;
      for (size_t k = 0; k < length; k += kRowProductStep) {
        sums.AddProducts(a + i * a_stride + k, b + j * b_stride + k);
      }
      Put(sums.SumInOrder(), out[i * out_stride + j]);
    }
  }
}

constexpr size_t kTileA = 1;
constexpr size_t kTileB = 1;

#endif

template <size_t kA, typename Out>
HWY_INLINE void AddStrip(const float* a, size_t a_stride, const RowMatrix& b, size_t length,
                         Out* out, size_t out_stride) {
  size_t j = 0;
  for (; j + kTileB <= b.num_rows; j += kTileB) {
    AddTile<kA, kTileB>(a, a_stride, b.data + j * b.stride, b.stride, length, out + j, out_stride);
  }
  for (; j < b.num_rows; ++j) {
    AddTile<kA, 1>(a, a_stride, b.data + j * b.stride, b.stride, length, out + j, out_stride);
  }
}

template <typename Out>
HWY_INLINE void Products(const RowMatrix& a, const RowMatrix& b, size_t length, Out* out,
                         size_t out_stride) {
  size_t i = 0;
  for (; i + kTileA <= a.num_rows; i += kTileA) {
    AddStrip<kTileA>(a.data + i * a.stride, a.stride, b, length, out + i * out_stride, out_stride);
  }
  for (; i < a.num_rows; ++i) {
    AddStrip<1>(a.data + i * a.stride, a.stride, b, length, out + i * out_stride, out_stride);
  }
}

void AddProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                 size_t out_stride) {
  Products(a, b, length, out, out_stride);
}

void PutProducts(const RowMatrix& a, const RowMatrix& b, size_t length, float* out,
                 size_t out_stride) {
  Products(a, b, length, out, out_stride);
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

template <typename Out>
using ProductsKernel = void (*)(const RowMatrix&, const RowMatrix&, size_t, Out*, size_t);
constexpr ProductsKernel<double> kAddProductsTable[] = BITPRESS_DISPATCH_TABLE(AddProducts);
constexpr ProductsKernel<float> kPutProductsTable[] = BITPRESS_DISPATCH_TABLE(PutProducts);

static void CheckShapes(const RowMatrix& a, const RowMatrix& b, size_t length, size_t out_stride) {
  BITPRESS_DCHECK(length % kRowProductStep == 0 && length <= kMostRowProductLength);
  BITPRESS_DCHECK(a.num_rows <= 1 || a.stride >= length);
  BITPRESS_DCHECK(b.num_rows <= 1 || b.stride >= length);
  BITPRESS_DCHECK(a.num_rows <= 1 || out_stride >= b.num_rows);
}

void AddRowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, double* out,
                    size_t out_stride) {
  CheckShapes(a, b, length, out_stride);
  kAddProductsTable[ChosenTargetIndex()](a, b, length, out, out_stride);
}

void RowProducts(const RowMatrix& a, const RowMatrix& b, size_t length, float* out,
                 size_t out_stride) {
  CheckShapes(a, b, length, out_stride);
  kPutProductsTable[ChosenTargetIndex()](a, b, length, out, out_stride);
}

}  // namespace bitpress::kernels
#endif
