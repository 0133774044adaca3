// Square matrices of float32 in vectors, turned around.
#if defined(BITPRESS_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_TRANSPOSE_INL_H_
#undef BITPRESS_KERNELS_TRANSPOSE_INL_H_
#else
#define BITPRESS_KERNELS_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Exchanges the rows, which are vectors, with the columns. There are as many rows as lanes: 1, 4, 8
// or 16.
template <class D, size_t kRows>
HWY_INLINE void Transpose([[maybe_unused]] D d,
                          [[maybe_unused]] hwy::HWY_NAMESPACE::VFromD<D> (&rows)[kRows]) {
  namespace hn = hwy::HWY_NAMESPACE;
  static_assert(kRows == hn::MaxLanes(D()));
  static_assert(kRows == 1 || kRows == 4 || kRows == 8 || kRows == 16);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kRows > 1) {
    // Within blocks of 128 bits: block k of rows[4 g + i] becomes column 4 k + i of rows 4 g to 4 g
    // + 3.
    const hn::Repartition<uint64_t, D> d64;
    HWY_UNROLL(4)
    for (size_t g = 0; g < kRows; g += 4) {
      const auto low = hn::BitCast(d64, hn::InterleaveLower(d, rows[g], rows[g + 1]));
      const auto high = hn::BitCast(d64, hn::InterleaveUpper(d, rows[g], rows[g + 1]));
      const auto next_low = hn::BitCast(d64, hn::InterleaveLower(d, rows[g + 2], rows[g + 3]));
      const auto next_high = hn::BitCast(d64, hn::InterleaveUpper(d, rows[g + 2], rows[g + 3]));
      rows[g] = hn::BitCast(d, hn::InterleaveLower(d64, low, next_low));
      rows[g + 1] = hn::BitCast(d, hn::InterleaveUpper(d64, low, next_low));
      rows[g + 2] = hn::BitCast(d, hn::InterleaveLower(d64, high, next_high));
      rows[g + 3] = hn::BitCast(d, hn::InterleaveUpper(d64, high, next_high));
    }
  }
  // Then the blocks.
  if constexpr (kRows == 8) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < 4; ++i) {
      const auto first = rows[i], second = rows[4 + i];
      rows[i] = hn::ConcatLowerLower(d, second, first);
      rows[4 + i] = hn::ConcatUpperUpper(d, second, first);
    }
  }
#endif  // not HWY_SCALAR
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kRows == 16) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < 4; ++i) {
      constexpr int kLower = 0x44, kUpper = 0xEE, kEven = 0x88, kOdd = 0xDD;  // blocks of each
      const auto a = rows[i].raw, b = rows[4 + i].raw, c = rows[8 + i].raw, e = rows[12 + i].raw;
      const __m512 low = _mm512_shuffle_f32x4(a, b, kLower);
      const __m512 next_low = _mm512_shuffle_f32x4(c, e, kLower);
      const __m512 high = _mm512_shuffle_f32x4(a, b, kUpper);
      const __m512 next_high = _mm512_shuffle_f32x4(c, e, kUpper);
      using V = hn::VFromD<D>;
      rows[i] = V{_mm512_shuffle_f32x4(low, next_low, kEven)};
      rows[4 + i] = V{_mm512_shuffle_f32x4(low, next_low, kOdd)};
      rows[8 + i] = V{_mm512_shuffle_f32x4(high, next_high, kEven)};
      rows[12 + i] = V{_mm512_shuffle_f32x4(high, next_high, kOdd)};
    }
  }
#endif
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
