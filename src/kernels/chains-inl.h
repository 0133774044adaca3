// Chains of fused multiply-adds of some rows with some vectors, and how those of the even and the
// odd elements of a part become its sum (formats/block_products.h). For the vector code of products
// and convolutions of floats. Loops over rows and vectors are unrolled early, so that GCC keeps the
// chains of a function in registers alone.
#if defined(BITPRESS_KERNELS_CHAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_CHAINS_INL_H_
#undef BITPRESS_KERNELS_CHAINS_INL_H_
#else
#define BITPRESS_KERNELS_CHAINS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/product_vectors-inl.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The rows whose two chains with so many vectors have room in the registers.
constexpr size_t kChainRows = kParts == 1 || kIsArm ? 6 : 3;
constexpr size_t kChainVectors = 2;

template <size_t kRows, size_t kVectors>
using Chains = VF[kRows][kVectors];

template <size_t kRows, size_t kVectors>
HWY_INLINE void ClearChains(Chains<kRows, kVectors>& chains) {
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) chains[r][v] = hn::Zero(kDf);
  }
}

// Adds the products of element k of the rows with values.
template <size_t kRows, size_t kVectors>
HWY_INLINE void AddToChains(const float* const* rows, size_t k, const VF (&values)[kVectors],
                            Chains<kRows, kVectors>& chains) {
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    const VF factor = hn::Set(kDf, rows[r][k]);
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      chains[r][v] = FusedMulAdd(factor, values[v], chains[r][v]);
    }
  }
}

// Adds both chains of a part to sums, of which a row's are `stride` apart.
template <size_t kRows, size_t kVectors>
HWY_INLINE void AddPartTo(const Chains<kRows, kVectors>& even, const Chains<kRows, kVectors>& odd,
                          VF* sums, size_t stride) {
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      VF& sum = sums[r * stride + v];
      sum = hn::Add(sum, hn::Add(even[r][v], odd[r][v]));
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CHAINS_INL_H_
