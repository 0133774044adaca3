// The vector code of quantize-dequantize over blocks. It is compiled once a target and included by
// the files of the kernel families only. rounding-inl.h rounds values and says which blocks are
// left to the scalar reference.
#if defined(BITPRESS_KERNELS_FAKE_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_FAKE_QUANTIZE_INL_H_
#undef BITPRESS_KERNELS_FAKE_QUANTIZE_INL_H_
#else
#define BITPRESS_KERNELS_FAKE_QUANTIZE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/block_units.h"
#include "formats/reference.h"
#include "kernels/column_codes.h"
#include "kernels/dispatch.h"
#include "kernels/fake_quantize.h"
#include "kernels/rounding-inl.h"
#include "kernels/whole_block.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Applies the reference to some columns of a block.
inline HWY_NOINLINE void ReferenceColumns(const FakeQuantizeParams& p, const float* x, float* y,
                                          size_t length, size_t columns, Strides strides) {
  std::vector<float> block(length);
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < length; ++r) block[r] = x[r * strides.x + c];
    formats::ref::FakeQuantizeBlock(*p.spec, block, block);
    for (size_t r = 0; r < length; ++r) y[r * strides.y + c] = block[r];
  }
}

template <class R, bool kMse, bool kSub>
struct BlockKernel {
  // Returns the squared error of a column's block at an exponent, in units of the floor choice's
  // scale. It is the reference's SquaredError, operation for operation.
  template <bool kPart>
  static HWY_INLINE VF SquaredError(const Constants& c, const float* x, size_t length,
                                    size_t stride, size_t count, VU exponent, VF inverse_scale) {
    VF sum = hn::Zero(kDf);
    ForEachSubBlock<kPart>(
        c, x, length, stride, count, exponent, [&](const R& rounder, size_t r) HWY_ATTR {
          const VF value = LoadUpTo<kPart>(x + r * stride, count);
          const VF error = hn::Mul(hn::Sub(rounder(c, value), value), inverse_scale);
          sum = hn::Add(sum, hn::Mul(error, error));
        });
    return sum;
  }

  template <bool kPart>
  static HWY_INLINE VU LeastErrorExponent(const Constants& c, const float* x, size_t length,
                                          size_t stride, size_t count, VU amax) {
    const VU floor = hn::And(amax, hn::Set(kDu, kExponent));
    const VU one = hn::Set(kDu, kOneExponent);
    // This is 2^-(floor - emax). An all-zero block has no error whatever the scale.
    const VU safe_floor = hn::Max(floor, hn::Set(kDu, kLeastAmax));
    const VF inverse =
        AsFloat(hn::Sub(hn::Set(kDu, (254u << 23) + c.params.emax_offset), safe_floor));
    VU best = LimitExponent(c, hn::Sub(safe_floor, one));
    VF least = SquaredError<kPart>(c, x, length, stride, count, best, inverse);
    for (const VU candidate :
         {LimitExponent(c, safe_floor), LimitExponent(c, hn::Add(safe_floor, one))}) {
      const VF error = SquaredError<kPart>(c, x, length, stride, count, candidate, inverse);
      const auto is_less = hn::Lt(error, least);
      least = hn::IfThenElse(is_less, error, least);
      best = hn::IfThenElse(hn::RebindMask(kDu, is_less), candidate, best);
    }
    return best;
  }

  // Calls function(rounder, row) for all rows in order, with the rounder of the row's sub-block.
  template <bool kPart, class Function>
  static HWY_INLINE void ForEachSubBlock(const Constants& c, const float* x, size_t length,
                                         size_t stride, size_t count, VU exponent,
                                         Function&& function) {
    if constexpr (!kSub) {
      const R rounder(c, exponent);
      for (size_t r = 0; r < length; ++r) function(rounder, r);
    } else {
      for (size_t begin = 0; begin < length; begin += c.sub_block_size) {
        const size_t end = std::min(length, begin + c.sub_block_size);
        VU sub_amax = hn::Zero(kDu);
        for (size_t r = begin; r < end; ++r) {
          sub_amax = hn::Max(sub_amax, Magnitude(LoadUpTo<kPart>(x + r * stride, count)));
        }
        const R rounder(c, SubBlockExponent(c, exponent, sub_amax));
        for (size_t r = begin; r < end; ++r) function(rounder, r);
      }
    }
  }

  // Prefetches rows, which lie pages apart in a large tensor, so that no hardware prefetcher
  // follows them. This makes blocks of 32 rows 2.7 times as fast on a 12.8 MB tensor (mxfp8_e4m3,
  // Zen 4). They go to the second-level cache, because rows at a multiple of a power of two would
  // push each other out of the first. Addresses behind the tensor are harmless.
  static HWY_INLINE void PrefetchAhead(const float* x, const float* y) {
    constexpr int kSecondLevel = 2;
    __builtin_prefetch(x, /*for writing=*/0, kSecondLevel);
    __builtin_prefetch(y, /*for writing=*/1, kSecondLevel);
  }

  // Treats kVectors vectors of neighbouring columns, or part of one.
  template <size_t kVectors, bool kPart>
  static HWY_INLINE void Columns(const Constants& c, const float* x, float* y, size_t length,
                                 Strides strides, size_t count) {
    constexpr size_t kLanes = LaneCount();
    VU amax[kVectors];
    for (size_t k = 0; k < kVectors; ++k) amax[k] = hn::Zero(kDu);
    for (size_t r = 0; r < length; ++r) {
      for (size_t k = 0; k < kVectors; ++k) {
        if constexpr (kVectors > 1) {
          PrefetchAhead(x + r * strides.x + (k + 2 * kVectors) * kLanes,
                        y + r * strides.y + (k + kVectors) * kLanes);
        } else {
          // What follows a row's last vectors is often its next piece.
          PrefetchAhead(x + r * strides.x + 8 * kLanes, y + r * strides.y);
        }
        amax[k] =
            hn::Max(amax[k], Magnitude(LoadUpTo<kPart>(x + r * strides.x + k * kLanes, count)));
      }
    }
    for (size_t k = 0; k < kVectors; ++k) {
      if (HWY_UNLIKELY(AnySpecial(amax[k]))) {
        ReferenceColumns(c.params, x, y, length, kPart ? count : kVectors * kLanes, strides);
        return;
      }
    }
    if constexpr (!kSub && !kMse) {
      // The order is row by row over all vectors, which is that of memory.
      const auto rounders = MakeRounders<kVectors>(c, amax);
      for (size_t r = 0; r < length; ++r) {
        for (size_t k = 0; k < kVectors; ++k) {
          const VF value = LoadUpTo<kPart>(x + r * strides.x + k * kLanes, count);
          StoreUpTo<kPart>(rounders.at[k](c, value), y + r * strides.y + k * kLanes, count);
        }
      }
    } else {
      for (size_t k = 0; k < kVectors; ++k) {
        const float* column = x + k * kLanes;
        VU exponent;
        if constexpr (kMse) {
          exponent = LeastErrorExponent<kPart>(c, column, length, strides.x, count, amax[k]);
        } else {
          exponent = BlockExponent(c, amax[k]);
        }
        ForEachSubBlock<kPart>(c, column, length, strides.x, count, exponent,
                               [&](const R& rounder, size_t r) HWY_ATTR {
                                 const VF value = LoadUpTo<kPart>(column + r * strides.x, count);
                                 StoreUpTo<kPart>(rounder(c, value), y + k * kLanes + r * strides.y,
                                                  count);
                               });
      }
    }
  }

  template <size_t kVectors>
  struct Rounders {
    R at[kVectors];
  };
  template <size_t kVectors>
  static HWY_INLINE Rounders<kVectors> MakeRounders(const Constants& c, const VU* amax) {
    if constexpr (kVectors == 1) {
      return {{R(c, BlockExponent(c, amax[0]))}};
    } else {
      static_assert(kVectors == 4);
      return {{R(c, BlockExponent(c, amax[0])), R(c, BlockExponent(c, amax[1])),
               R(c, BlockExponent(c, amax[2])), R(c, BlockExponent(c, amax[3]))}};
    }
  }

  static void AllColumns(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                         size_t columns, Strides strides) {
    constexpr size_t kLanes = LaneCount();
    const Constants c(p);
    size_t i = 0;
    for (; i + 4 * kLanes <= columns; i += 4 * kLanes) {
      Columns<4, false>(c, x + i, y + i, length, strides, 0);
    }
    for (; i + kLanes <= columns; i += kLanes) {
      Columns<1, false>(c, x + i, y + i, length, strides, 0);
    }
    if (i < columns) Columns<1, true>(c, x + i, y + i, length, strides, columns - i);
  }

  // --- Columns as codes ---

  // Leaves columns to the reference.
  static HWY_NOINLINE void ReferenceCodes(const FakeQuantizeParams& p, const float* x,
                                          size_t length, size_t stride, size_t count,
                                          const ColumnCodes& out) {
    constexpr size_t kColumns = 16;
    std::vector<float> values(out.pieces * ElementsOfPiece(out.form) * kColumns);
    for (size_t r = 0; r < length; ++r) {
      std::copy_n(x + r * stride, count, values.data() + r * kColumns);
    }
    ReferenceColumns(p, values.data(), values.data(), length, count, {kColumns, kColumns});
    std::vector<uint8_t> codes(out.pieces * 4 * kColumns);
    uint8_t units[kColumns];
    ColumnCodes taken = out;
    taken.codes = codes.data();
    taken.code_stride = 4 * kColumns;
    taken.units = units;
    TakeColumns(*formats::BlockUnitsOf(*p.spec), values.data(), kColumns, kColumns, taken);
    for (size_t piece = 0; piece < out.pieces; ++piece) {
      std::memcpy(out.codes + piece * out.code_stride, codes.data() + piece * taken.code_stride,
                  4 * LaneCount());
    }
    std::memcpy(out.units, units, LaneCount());
    for (const uint8_t unit : units) {
      if (unit > kLargestQuickUnit && unit != formats::kNanUnit) *out.has_large_unit = true;
    }
  }

  // Quantizes a vector of columns to whole elements in units that follow from the block's exponent.
  // (TakeColumns would take a smaller unit where rounding left a smaller largest value; products
  // are the same.)
  template <bool kPart, bool kIsBytes>
  static HWY_INLINE void Codes(const Constants& c, const formats::BlockUnits& rule, const float* x,
                               size_t length, size_t stride, size_t count, const ColumnCodes& out) {
    VU amax = hn::Zero(kDu);
    for (size_t r = 0; r < length; ++r) {
      if constexpr (!kPart) PrefetchAhead(x + r * stride + 8 * LaneCount(), x + r * stride);
      amax = hn::Max(amax, Magnitude(LoadUpTo<kPart>(x + r * stride, count)));
    }
    if (HWY_UNLIKELY(AnySpecial(amax))) {
      return ReferenceCodes(c.params, x, length, stride, kPart ? count : LaneCount(), out);
    }
    VU exponent;
    if constexpr (kMse) {
      exponent = LeastErrorExponent<kPart>(c, x, length, stride, count, amax);
    } else {
      exponent = BlockExponent(c, amax);
    }
    const VI unit = hn::Sub(hn::BitCast(kDi, hn::ShiftRight<23>(exponent)), hn::Set(kDi, rule.top));
    const VF inverse =
        hn::BitCast(kDf, hn::ShiftLeft<23>(hn::Sub(hn::Set(kDi, 2 * formats::kUnitBias), unit)));
    constexpr hn::Rebind<uint8_t, DF> kBytes;
    hn::StoreU(hn::DemoteTo(kBytes, unit), kBytes, out.units);
    if constexpr (R::kIsNearest && !kSub && kIsBytes && HWY_NATIVE_FMA) {
      return NearestCodes<kPart>(rule, x, length, stride, count, inverse, out);
    }
    constexpr size_t kElements = kIsBytes ? 4 : 2;
    const VI offset = hn::Set(kDi, out.offset);
    VI piece = hn::Zero(kDi);
    auto* to = reinterpret_cast<int32_t*>(out.codes);
    const auto add = [&](VI number, size_t r) HWY_ATTR {
      if constexpr (kIsBytes) {
        number = hn::Add(number, offset);
      } else {
        number = hn::And(number, hn::Set(kDi, 0xFFFF));
      }
      const size_t place = r % kElements;
      piece = hn::Or(piece, hn::ShiftLeftSame(number, static_cast<int>(place * 32 / kElements)));
      if (place + 1 < kElements) return;
      hn::StoreU(piece, kDi, to);
      to += out.code_stride / sizeof(int32_t);
      piece = hn::Zero(kDi);
    };
    ForEachSubBlock<kPart>(c, x, length, stride, count, exponent,
                           [&](const R& rounder, size_t r) HWY_ATTR {
                             const VF value = rounder(c, LoadUpTo<kPart>(x + r * stride, count));
                             add(hn::NearestInt(hn::Mul(value, inverse)), r);
                           });
    for (size_t r = length; r < out.pieces * kElements; ++r) add(hn::Zero(kDi), r);
  }

  // Writes the nearest whole numbers as bytes. A multiply-add rounds them to the low bits of
  // kWholeStart plus their offset, and the bits of kWholeStart go last.
  template <bool kPart>
  static HWY_INLINE void NearestCodes(const formats::BlockUnits& rule, const float* x,
                                      size_t length, size_t stride, size_t count, VF inverse,
                                      const ColumnCodes& out) {
    const auto at = [&](int number) {
      return hn::Set(kDf, kWholeStart + static_cast<float>(out.offset + number));
    };
    const VF zero = at(0), least = at(rule.least()), largest = at(rule.largest);
    const auto number = [&](size_t r) HWY_ATTR {
      VF value = zero;
      if (r < length) value = hn::MulAdd(LoadUpTo<kPart>(x + r * stride, count), inverse, zero);
      return hn::BitCast(kDi, hn::Max(hn::Min(value, largest), least));
    };
    constexpr auto kStart = static_cast<uint32_t>(kWholeStartBits);
    const VI starts =
        hn::Set(kDi, static_cast<int32_t>(kStart ^ kStart << 8U ^ kStart << 16U ^ kStart << 24U));
    auto* to = reinterpret_cast<int32_t*>(out.codes);
    for (size_t r = 0; r < 4 * out.pieces; r += 4, to += out.code_stride / sizeof(int32_t)) {
      const VI low = hn::Xor(number(r), hn::ShiftLeft<8>(number(r + 1)));
      const VI high = hn::Xor(hn::ShiftLeft<16>(number(r + 2)), hn::ShiftLeft<24>(number(r + 3)));
      hn::StoreU(hn::Xor(hn::Xor(low, high), starts), kDi, to);
    }
  }

  template <bool kIsBytes>
  static void AllCodesOf(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                         size_t stride, ColumnCodes out) {
    constexpr size_t kLanes = LaneCount();
    const Constants c(p);
    const formats::BlockUnits rule = *formats::BlockUnitsOf(*p.spec);
    for (size_t i = 0; i < columns; i += kLanes) {
      if (i + kLanes <= columns) {
        Codes<false, kIsBytes>(c, rule, x + i, length, stride, 0, out);
      } else {
        Codes<true, kIsBytes>(c, rule, x + i, length, stride, columns - i, out);
      }
      out.codes += 4 * kLanes;
      out.units += kLanes;
    }
  }

  static void AllCodes(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                       size_t stride, const ColumnCodes& out) {
    if (out.form == ColumnForm::kBytes) {
      AllCodesOf<true>(p, x, length, columns, stride, out);
    } else {
      AllCodesOf<false>(p, x, length, columns, stride, out);
    }
  }

  // --- Contiguous blocks ---

  // Returns whether blocks fit vectors: their size is a power of two, sub-blocks are pairs within a
  // vector, and the scale follows from amax alone.
  static bool FitsVectors(const FakeQuantizeParams& p) {
    const bool power_of_two = (p.block_size & (p.block_size - 1)) == 0;
    return !kMse && power_of_two && p.block_size >= 4 && p.block_size <= 4 * LaneCount() &&
           (!kSub || (p.sub_block_size == 2 && LaneCount() >= 2));
  }

  // Returns in every lane the largest of the group of `size` lanes (a power of two) it belongs to.
  static HWY_INLINE VU GroupMax(VU v, [[maybe_unused]] size_t size) {
#if HWY_TARGET != HWY_SCALAR
    if (size >= 2) v = hn::Max(v, hn::Reverse2(kDu, v));
    if (size >= 4) v = hn::Max(v, hn::Reverse4(kDu, v));
    if constexpr (LaneCount() >= 8) {
      if (size >= 8) v = hn::Max(v, hn::Reverse8(kDu, v));
    }
    if constexpr (LaneCount() >= 16) {
      if (size >= 16) v = hn::Max(v, hn::Reverse(kDu, v));
    }
#endif
    return v;
  }
  static HWY_INLINE VU PairMax(VU v) {
#if HWY_TARGET != HWY_SCALAR
    v = hn::Max(v, hn::Reverse2(kDu, v));
#endif
    return v;
  }

  // Treats kVectors vectors that hold whole blocks. Returns false, and does nothing, if the
  // reference must do them.
  template <size_t kVectors>
  static HWY_INLINE bool Blocks(const Constants& c, size_t block_size, const float* x, float* y) {
    constexpr size_t kLanes = LaneCount();
    VF value[kVectors];
    VU amax = hn::Zero(kDu);
    for (size_t k = 0; k < kVectors; ++k) {
      value[k] = hn::LoadU(kDf, x + k * kLanes);
      amax = hn::Max(amax, Magnitude(value[k]));
    }
    amax = GroupMax(amax, std::min(block_size, kLanes));
    if (HWY_UNLIKELY(AnySpecial(amax))) return false;
    const VU exponent = BlockExponent(c, amax);
    if constexpr (kSub) {
      for (size_t k = 0; k < kVectors; ++k) {
        const R rounder(c, SubBlockExponent(c, exponent, PairMax(Magnitude(value[k]))));
        hn::StoreU(rounder(c, value[k]), kDf, y + k * kLanes);
      }
    } else {
      const R rounder(c, exponent);
      for (size_t k = 0; k < kVectors; ++k) hn::StoreU(rounder(c, value[k]), kDf, y + k * kLanes);
    }
    return true;
  }

  template <size_t kVectors>
  static HWY_INLINE void BlocksOrReference(const Constants& c, const float* x, float* y) {
    const size_t block_size = c.params.block_size;
    if (HWY_LIKELY(Blocks<kVectors>(c, block_size, x, y))) return;
    for (size_t i = 0; i < kVectors * LaneCount(); i += block_size) {
      formats::ref::FakeQuantizeBlock(*c.params.spec, {x + i, block_size}, {y + i, block_size});
    }
  }

  // Treats `length` contiguous elements, whose last block may be short.
  static void Row(const FakeQuantizeParams& p, const float* x, float* y, size_t length) {
    constexpr size_t kLanes = LaneCount();
    const Constants c(p);
    const size_t vectors = std::max(p.block_size, kLanes) / kLanes;
    size_t i = 0;
    const auto loop = [&]<size_t kVectors>() {
      constexpr size_t kStep = kVectors * kLanes;
      for (; i + kStep <= length; i += kStep) BlocksOrReference<kVectors>(c, x + i, y + i);
      if (i == length) return;
      // The rest is padded with zeros, which do not change a block's largest magnitude.
      float buffer[kStep] = {};
      std::memcpy(buffer, x + i, (length - i) * sizeof(float));
      BlocksOrReference<kVectors>(c, buffer, buffer);
      std::memcpy(y + i, buffer, (length - i) * sizeof(float));
    };
    if (vectors == 1) loop.template operator()<1>();
    if (vectors == 2) loop.template operator()<2>();
    if (vectors == 4) loop.template operator()<4>();
  }

  // Treats a row of any block size and scale choice: it turns as many blocks as a vector has lanes
  // into columns and back.
  static void TransposedRow(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                            std::vector<float>& buffer) {
    constexpr size_t kLanes = LaneCount();
    const size_t block = std::min(p.block_size, length);
    buffer.resize(block * kLanes);
    for (size_t begin = 0; begin < length; begin += block * kLanes) {
      const size_t size = std::min(block * kLanes, length - begin);
      std::fill(buffer.begin(), buffer.end(), 0.0f);
      for (size_t i = 0; i < size; ++i) buffer[i % block * kLanes + i / block] = x[begin + i];
      AllColumns(p, buffer.data(), buffer.data(), block, (size + block - 1) / block,
                 {kLanes, kLanes});
      for (size_t i = 0; i < size; ++i) y[begin + i] = buffer[i % block * kLanes + i / block];
    }
  }

  static void AllRows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                      size_t rows, Strides strides) {
    const bool fits = FitsVectors(p);
    std::vector<float> buffer;
    for (size_t r = 0; r < rows; ++r) {
      if (fits) {
        Row(p, x + r * strides.x, y + r * strides.y, length);
      } else {
        TransposedRow(p, x + r * strides.x, y + r * strides.y, length, buffer);
      }
    }
  }
};

// --- From a format to its instantiation ---

template <bool kSub, class R, class Function>
void WithScaleChoice(const FakeQuantizeParams& p, Function&& function) {
  if (p.spec->scale_choice == formats::ScaleChoice::kMse) {
    function(BlockKernel<R, true, kSub>());
  } else {
    function(BlockKernel<R, false, kSub>());
  }
}

// Calls the function with the kernel for sign-magnitude elements in blocks, with or without
// sub-blocks.
template <bool kSub, class Function>
void WithSignMagnitude(const FakeQuantizeParams& p, Function&& function) {
  constexpr Element kElement = Element::kSignMagnitude;
  if (p.spec->rounding != RoundingMode::kHalfToEven) {
    WithScaleChoice<kSub, Rounder<kElement, false, ZeroRule::kKeepSign>>(p, function);
  } else if (p.spec->zero_rule == ZeroRule::kQuarkNearest) {
    WithScaleChoice<kSub, Rounder<kElement, true, ZeroRule::kQuarkNearest>>(p, function);
  } else {
    WithScaleChoice<kSub, Rounder<kElement, true, ZeroRule::kKeepSign>>(p, function);
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
