// The vectors of products in blocks, and how bytes and words are multiplied and added. For the
// vector code that includes product_codes-inl.h.
#if defined(BITPRESS_KERNELS_PRODUCT_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PRODUCT_VECTORS_INL_H_
#undef BITPRESS_KERNELS_PRODUCT_VECTORS_INL_H_
#else
#define BITPRESS_KERNELS_PRODUCT_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/fused_mul_add-inl.h"
#include "kernels/product_panels.h"
#include "kernels/whole_block.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kPanelColumns> kDf;
constexpr hn::RebindToSigned<decltype(kDf)> kDi;
constexpr hn::Repartition<uint8_t, decltype(kDf)> kD8;
constexpr hn::RebindToSigned<decltype(kD8)> kD8i;
constexpr hn::Repartition<int16_t, decltype(kDf)> kD16;
constexpr hn::RebindToUnsigned<decltype(kD16)> kD16u;
constexpr hn::Rebind<uint8_t, decltype(kDf)> kBytesOfLanes;
using VF = hn::VFromD<decltype(kDf)>;
using VI = hn::VFromD<decltype(kDi)>;
using V8 = hn::VFromD<decltype(kD8)>;
using V8i = hn::VFromD<decltype(kD8i)>;
using V16 = hn::VFromD<decltype(kD16)>;

constexpr size_t kLanes = hn::MaxLanes(kDf);
constexpr size_t kParts = kPanelColumns / kLanes;  // vectors of a panel
constexpr size_t kVectorBytes = 4 * kLanes;
constexpr bool kIsArm = BITPRESS_IS_ARM64;
constexpr bool kHasDot = BITPRESS_PRODUCTS_WITH_DOT;
// SSE4, whose registers are too few for it, and short vectors have no code of their own for blocks
// of usual lengths.
constexpr bool kHasUsualBlocks = HWY_TARGET != HWY_SSE4;
constexpr size_t kUnrolled = kParts == 4 ? 1 : 8;

// Returns a * b + c, rounded once.
HWY_INLINE VF FusedMulAdd(VF a, VF b, VF c) { return HWY_NAMESPACE::FusedMulAdd(kDf, a, b, c); }

// The sums of a block, counted from kWholeStartBits on, times its unit.
struct WholeSums {
  HWY_INLINE explicit WholeSums(VF block_unit)
      : unit(block_unit), start(hn::Mul(hn::Set(kDf, -kWholeStart), block_unit)) {}
  HWY_INLINE VF operator()(VI sums) const {
    const VF floats = hn::BitCast(kDf, sums);
#if HWY_NATIVE_FMA
    return hn::MulAdd(floats, unit, start);
#else
    return hn::Mul(hn::Sub(floats, hn::Set(kDf, kWholeStart)), unit);
#endif
  }
  VF unit, start;
};

// Clears sums of 16 or 32 bits that products are gathered in.
template <class D, class V, size_t kRows, size_t kVectors, size_t kCount>
HWY_INLINE void Clear(D d, V (&sums)[kRows][kVectors][kCount]) {
  for (auto& row : sums) {
    for (auto& of_vector : row) {
      for (V& sum : of_vector) sum = hn::Zero(d);
    }
  }
}

// WordSums adds products of words, of two neighbours each, to sums of 32 bits. ByteSums adds
// products of codes and signed bytes, of four neighbours each. With dot products that is one
// instruction, but for words on Arm. Without, bytes are gathered in 16 bits first: the caller says
// when these are full. Finish adds what was gathered to the sums.
#if BITPRESS_IS_ARM64

template <size_t kRows, size_t kVectors>
struct WordSums {
  HWY_INLINE WordSums() { Clear(kDi, gathered); }
  HWY_INLINE VI Add(size_t r, size_t v, V16 codes, V16 row, VI sum) {
    auto& [low, high] = gathered[r][v];
    low = VI{vmlal_s16(low.raw, vget_low_s16(codes.raw), vget_low_s16(row.raw))};
    high = VI{vmlal_high_s16(high.raw, codes.raw, row.raw)};
    return sum;
  }
  HWY_INLINE void Finish(VI (&all)[kRows][kVectors]) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        const auto& [low, high] = gathered[r][v];
        all[r][v] = hn::Add(all[r][v], VI{vpaddq_s32(low.raw, high.raw)});
      }
    }
  }

  VI gathered[kRows][kVectors][2];
};

#if BITPRESS_PRODUCTS_WITH_DOT
template <size_t kRows, size_t kVectors>
struct ByteSums {
  HWY_INLINE VI Add(size_t, size_t, V8 codes, V8i row, VI sum) {
    return VI{vdotq_s32(sum.raw, vreinterpretq_s8_u8(codes.raw), row.raw)};
  }
  HWY_INLINE void Finish(VI (&)[kRows][kVectors]) {}
};
#else
template <size_t kRows, size_t kVectors>
struct ByteSums {
  HWY_INLINE ByteSums() { Clear(kD16, gathered); }
  HWY_INLINE VI Add(size_t r, size_t v, V8 codes, V8i row, VI sum) {
    auto& [low, high] = gathered[r][v];
    const int8x16_t numbers = vreinterpretq_s8_u8(codes.raw);
    low = V16{vmlal_s8(low.raw, vget_low_s8(numbers), vget_low_s8(row.raw))};
    high = V16{vmlal_high_s8(high.raw, numbers, row.raw)};
    return sum;
  }
  HWY_INLINE void Finish(VI (&all)[kRows][kVectors]) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        const auto& [low, high] = gathered[r][v];
        all[r][v] = VI{vpadalq_s16(all[r][v].raw, vpaddq_s16(low.raw, high.raw))};
      }
    }
  }

  V16 gathered[kRows][kVectors][2];
};
#endif

#else  // x86

// Returns a[2i] * b[2i] + a[2i + 1] * b[2i + 1] in lane i.
HWY_INLINE VI SumOfPairs(V16 a, V16 b) {
#if HWY_TARGET == HWY_AVX3
  return VI{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return VI{_mm_madd_epi16(a.raw, b.raw)};
#endif
}

template <size_t kRows, size_t kVectors>
struct WordSums {
  HWY_INLINE VI Add(size_t, size_t, V16 codes, V16 row, VI sum) {
#if !BITPRESS_PRODUCTS_WITH_DOT
    return hn::Add(sum, SumOfPairs(codes, row));
#elif HWY_TARGET == HWY_AVX3
    return VI{_mm512_dpwssd_epi32(sum.raw, codes.raw, row.raw)};
#else
    return VI{_mm256_dpwssd_avx_epi32(sum.raw, codes.raw, row.raw)};
#endif
  }
  HWY_INLINE void Finish(VI (&)[kRows][kVectors]) {}
};

#if BITPRESS_PRODUCTS_WITH_DOT
template <size_t kRows, size_t kVectors>
struct ByteSums {
  HWY_INLINE VI Add(size_t, size_t, V8 codes, V8i row, VI sum) {
#if HWY_TARGET == HWY_AVX3
    return VI{_mm512_dpbusd_epi32(sum.raw, codes.raw, row.raw)};
#else
    return VI{_mm256_dpbusd_avx_epi32(sum.raw, codes.raw, row.raw)};
#endif
  }
  HWY_INLINE void Finish(VI (&)[kRows][kVectors]) {}
};
#else
HWY_INLINE V16 SumOfBytePairs(V8 codes, V8i row) {
#if HWY_TARGET == HWY_AVX3
  return V16{_mm512_maddubs_epi16(codes.raw, row.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V16{_mm256_maddubs_epi16(codes.raw, row.raw)};
#else
  return V16{_mm_maddubs_epi16(codes.raw, row.raw)};
#endif
}

// Keeps the compiler from computing the products of many steps before their sums: registers would
// not hold them.
template <class V>
HWY_INLINE V SumNow(V a, V b) {
  auto sum = hn::Add(a, b).raw;
#if defined(__GNUC__)
  asm volatile("" : "+v"(sum));
#endif
  return V{sum};
}

template <size_t kRows, size_t kVectors>
struct ByteSums {
  HWY_INLINE ByteSums() { Clear(kD16, gathered); }
  HWY_INLINE VI Add(size_t r, size_t v, V8 codes, V8i row, VI sum) {
    V16& words = gathered[r][v][0];
    words = SumNow(words, SumOfBytePairs(codes, row));
    return sum;
  }
  HWY_INLINE void Finish(VI (&all)[kRows][kVectors]) {
    const V16 ones = hn::Set(kD16, 1);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        all[r][v] = hn::Add(all[r][v], SumOfPairs(gathered[r][v][0], ones));
      }
    }
  }

  V16 gathered[kRows][kVectors][1];
};
#endif

#endif  // x86

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_PRODUCT_VECTORS_INL_H_
