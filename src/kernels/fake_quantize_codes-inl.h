// The vector code that quantizes columns of blocks to codes (FakeQuantizer::RunColumnCodes). It is
// compiled once a target and included by the files of the kernel families only.
#if defined(BITPRESS_KERNELS_FAKE_QUANTIZE_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_FAKE_QUANTIZE_CODES_INL_H_
#undef BITPRESS_KERNELS_FAKE_QUANTIZE_CODES_INL_H_
#else
#define BITPRESS_KERNELS_FAKE_QUANTIZE_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/block_units.h"
#include "kernels/byte_codes.h"
#include "kernels/column_codes.h"
#include "kernels/fake_quantize-inl.h"
#include "kernels/tile_convolution_units.h"
#include "kernels/tile_rows.h"
#include "kernels/whole_block.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Leaves a vector of columns to the reference. There are values of `count` columns.
inline HWY_NOINLINE void ReferenceCodes(const FakeQuantizeParams& p, const float* x, size_t length,
                                        size_t stride, size_t count, const ColumnCodes& out) {
  const formats::BlockUnits rule = *formats::BlockUnitsOf(*p.spec);
  const size_t of_piece = ElementsOfPiece(out.form);
  std::vector<float> block(length), elements(length);
  for (size_t c = 0; c < LaneCount(); ++c) {
    for (size_t r = 0; r < length; ++r) block[r] = c < count ? x[r * stride + c] : 0.0F;
    formats::ref::FakeQuantizeBlock(*p.spec, block, block);
    const uint8_t unit = TakeApart(rule, block.data(), 1, length, elements.data());
    out.units[c] = unit;
    if (unit > kLargestQuickUnit && unit != formats::kNanUnit) *out.has_large_unit = true;
    if (IsInTiles(out.form)) {
      // Whole elements in tiny blocks count as zeros, and floats do not.
      const bool is_float = !rule.is_whole() && unit != formats::kNanUnit &&
                            std::ranges::any_of(block, [](float value) { return value != 0; });
      const bool is_far = unit < out.least_tile_column || unit > kLargestTileColumn;
      if (is_float || (is_far && unit != formats::kNanUnit)) *out.has_large_unit = true;
      const auto value = [&](size_t r) -> uint32_t {
        return r < length ? Bfloat16Of(unit == formats::kNanUnit ? std::nanf("") : block[r]) : 0;
      };
      for (size_t piece = 0; piece < out.pieces; ++piece) {
        const uint32_t pair = value(LowerOf(out.form, piece)) | value(UpperOf(out.form, piece))
                                                                    << 16U;
        std::memcpy(out.codes + piece * out.code_stride + 4 * c, &pair, sizeof(pair));
      }
      continue;
    }
    std::vector<int16_t> numbers(out.pieces * of_piece);
    std::ranges::transform(elements, numbers.begin(),
                           [](float element) { return static_cast<int16_t>(element); });
    for (size_t piece = 0; piece < out.pieces; ++piece) {
      const int32_t packed = PieceOf(out.form, &numbers[piece * of_piece], out.offset);
      std::memcpy(out.codes + piece * out.code_stride + 4 * c, &packed, sizeof(packed));
    }
  }
}

// The codes of what a BlockKernel gives.
template <class R, bool kMse, bool kSub>
struct BlockCodes {
  using Blocks = BlockKernel<R, kMse, kSub>;

  // Quantizes a vector of columns to whole elements in units that follow from the block's exponent.
  // (TakeApart would take a smaller unit where rounding left a smaller largest value; products are
  // the same.)
  template <bool kPart, ColumnForm kForm>
  static HWY_INLINE void Codes(const Constants& c, const formats::BlockUnits& rule, const float* x,
                               size_t length, size_t stride, size_t count, const ColumnCodes& out) {
    constexpr bool kIsBytes = kForm == ColumnForm::kBytes;
    VU amax = hn::Zero(kDu);
    for (size_t r = 0; r < length; ++r) {
      if constexpr (!kPart) Blocks::PrefetchAhead(x + r * stride + 8 * LaneCount(), x + r * stride);
      amax = hn::Max(amax, Magnitude(LoadUpTo<kPart>(x + r * stride, count)));
    }
    if (HWY_UNLIKELY(AnySpecial(amax))) {
      return ReferenceCodes(c.params, x, length, stride, kPart ? count : LaneCount(), out);
    }
    VU exponent;
    if constexpr (kMse) {
      exponent = Blocks::template LeastErrorExponent<kPart>(c, x, length, stride, count, amax);
    } else {
      exponent = BlockExponent(c, amax);
    }
    const VI unit = hn::Sub(hn::BitCast(kDi, hn::ShiftRight<23>(exponent)), hn::Set(kDi, rule.top));
    const VF inverse =
        hn::BitCast(kDf, hn::ShiftLeft<23>(hn::Sub(hn::Set(kDi, 2 * formats::kUnitBias), unit)));
    constexpr hn::Rebind<uint8_t, DF> kBytes;
    hn::StoreU(hn::DemoteTo(kBytes, unit), kBytes, out.units);
    if constexpr (IsInTiles(kForm)) NoteUnits(unit, amax, out);
    constexpr bool kIsNumbers = kForm == ColumnForm::kBytes || kForm == ColumnForm::kTiles;
    if constexpr (R::kIsNearest && kIsNumbers && HWY_NATIVE_FMA) {
      constexpr size_t kPair = 2;
      const VI field = hn::Max(unit, hn::Set(kDi, 1));  // columns of zeros may have less
      const Numbers<kForm> numbers(out, hn::BitCast(kDf, hn::ShiftLeft<23>(field)));
      if constexpr (!kSub) {
        return NearestCodes<kPart>(rule, x, length, stride, count, inverse, numbers);
      } else if (c.sub_block_size == kPair) {
        if constexpr (kForm == ColumnForm::kTiles) {
          return NearestValues<kPart>(c, x, length, stride, count, exponent, out);
        }
        return NearestPairs<kPart>(c, x, length, stride, count, exponent, inverse, numbers);
      }
    }
    constexpr size_t kElements = ElementsOfPiece(kForm);
    const VI offset = hn::Set(kDi, out.offset);
    VI piece = hn::Zero(kDi);
    [[maybe_unused]] VI other = piece;  // the next piece of pairs
    auto* to = reinterpret_cast<int32_t*>(out.codes);
    const auto add = [&](VI number, size_t r) HWY_ATTR {
      if constexpr (kForm == ColumnForm::kPairs) {
        VI& own = r % 2 == 0 ? piece : other;
        own = r % 4 < 2 ? hn::ShiftLeft<16>(number)
                        : hn::Or(own, hn::And(number, hn::Set(kDi, 0xFFFF)));
        if (r % 4 < 2) return;
        hn::StoreU(own, kDi, to);
        to += out.code_stride / sizeof(int32_t);
        return;
      }
      if constexpr (kIsBytes) number = hn::Add(number, offset);
      if constexpr (!kIsBytes || kAreCodesSigned) {
        number = hn::And(number, hn::Set(kDi, kIsBytes ? 0xFF : 0xFFFF));
      }
      const size_t place = r % kElements;
      piece = hn::Or(piece, hn::ShiftLeftSame(number, static_cast<int>(place * 32 / kElements)));
      if (place + 1 < kElements) return;
      hn::StoreU(piece, kDi, to);
      to += out.code_stride / sizeof(int32_t);
      piece = hn::Zero(kDi);
    };
    Blocks::template ForEachSubBlock<kPart>(
        c, x, length, stride, count, exponent, [&](const R& rounder, size_t r) HWY_ATTR {
          const VF value = rounder(c, LoadUpTo<kPart>(x + r * stride, count));
          if constexpr (IsInTiles(kForm)) {
            add(hn::ShiftRight<16>(hn::BitCast(kDi, value)), r);
          } else {
            add(hn::NearestInt(hn::Mul(value, inverse)), r);
          }
        });
    for (size_t r = length; r < out.pieces * kElements; ++r) add(hn::Zero(kDi), r);
  }

  // Notes whether tiles do not take a unit of columns that are not zeros.
  static HWY_INLINE void NoteUnits(VI unit, VU amax, const ColumnCodes& out) {
    const auto is_small = hn::Lt(unit, hn::Set(kDi, out.least_tile_column));
    const auto is_large = hn::Gt(unit, hn::Set(kDi, kLargestTileColumn));
    const auto has_values = hn::Gt(hn::BitCast(kDi, amax), hn::Zero(kDi));
    if (HWY_UNLIKELY(!hn::AllFalse(kDi, hn::And(hn::Or(is_small, is_large), has_values)))) {
      *out.has_large_unit = true;
    }
  }

  // Returns the number from which the bytes that Join joins are counted. Numbers there are not
  // negative: those of signed bytes without an offset are counted from 128 on.
  static HWY_INLINE float StartOf(const ColumnCodes& out) {
    return kWholeStart + static_cast<float>(HasSigns(out) ? 128 : out.offset);
  }
  static HWY_INLINE bool HasSigns(const ColumnCodes& out) {
    return kAreCodesSigned && out.offset == 0;
  }

  // Joins four numbers, each in the low bits of kWholeStart plus its offset, to a piece.
  static HWY_INLINE VI Join(const ColumnCodes& out, VF first, VF second, VF third, VF fourth) {
    constexpr auto kStart = static_cast<uint32_t>(kWholeStartBits);
    constexpr uint32_t kStarts = kStart ^ kStart << 8U ^ kStart << 16U ^ kStart << 24U;
    // The highest bit turns what is counted from 128 on into a signed byte.
    const uint32_t starts = HasSigns(out) ? kStarts ^ 0x80808080U : kStarts;
    const VI low = hn::Xor(hn::BitCast(kDi, first), hn::ShiftLeft<8>(hn::BitCast(kDi, second)));
    const VI high = hn::Xor(hn::ShiftLeft<16>(hn::BitCast(kDi, third)),
                            hn::ShiftLeft<24>(hn::BitCast(kDi, fourth)));
    return hn::Xor(hn::Xor(low, high), hn::Set(kDi, static_cast<int32_t>(starts)));
  }

  // Writes numbers that are counted from StartOf(out) on, four at a time.
  template <ColumnForm kForm>
  struct Numbers {
    HWY_INLINE Numbers(const ColumnCodes& columns, VF block_unit)
        : out(columns), unit(block_unit) {}
    HWY_INLINE size_t count() const { return ElementsOfPiece(kForm) * out.pieces; }
    HWY_INLINE void Put(size_t r, VF first, VF second, VF third, VF fourth) const {
      auto* const to =
          reinterpret_cast<int32_t*>(out.codes + r / ElementsOfPiece(kForm) * out.code_stride);
      if constexpr (kForm == ColumnForm::kBytes) {
        hn::StoreU(Join(out, first, second, third, fourth), kDi, to);
      } else {
        hn::StoreU(Pair(first, second), kDi, to);
        hn::StoreU(Pair(third, fourth), kDi, to + out.code_stride / sizeof(int32_t));
      }
    }
    // Returns the values of two numbers as bfloat16.
    HWY_INLINE VI Pair(VF first, VF second) const {
      const VF start = hn::Set(kDf, StartOf(out));
      const VI low = hn::BitCast(kDi, hn::Mul(hn::Sub(first, start), unit));
      const VI high = hn::BitCast(kDi, hn::Mul(hn::Sub(second, start), unit));
      return hn::Or(hn::BitCast(kDi, hn::ShiftRight<16>(hn::BitCast(kDu, low))),
                    hn::And(high, hn::Set(kDi, static_cast<int32_t>(0xFFFF0000U))));
    }

    const ColumnCodes& out;
    VF unit;
  };

  template <bool kPart>
  static HWY_INLINE VF LoadRow(const float* x, size_t row, size_t length, size_t stride,
                               size_t count) {
    return row < length ? LoadUpTo<kPart>(x + row * stride, count) : hn::Zero(kDf);
  }

  // Writes the nearest whole numbers: a multiply-add rounds them.
  template <bool kPart, class Out>
  static HWY_INLINE void NearestCodes(const formats::BlockUnits& rule, const float* x,
                                      size_t length, size_t stride, size_t count, VF inverse,
                                      const Out& out) {
    const auto at = [&](int number) {
      return hn::Set(kDf, StartOf(out.out) + static_cast<float>(number));
    };
    const VF zero = at(0), least = at(rule.least()), largest = at(rule.largest);
    const auto number = [&](size_t r) HWY_ATTR {
      const VF value = LoadRow<kPart>(x, r, length, stride, count);
      return hn::Max(hn::Min(hn::MulAdd(value, inverse, zero), largest), least);
    };
    for (size_t r = 0; r < out.count(); r += 4) {
      out.Put(r, number(r), number(r + 1), number(r + 2), number(r + 3));
    }
  }

  // Does the same where pairs of elements lower the block's exponent. They are multiples of a power
  // of two, to which sums with as much larger a number round.
  template <bool kPart, class Out>
  static HWY_INLINE void NearestPairs(const Constants& c, const float* x, size_t length,
                                      size_t stride, size_t count, VU exponent, VF inverse,
                                      const Out& out) {
    const VU least = hn::Sub(exponent, c.max_shift);
    const VU start = hn::Set(kDu, static_cast<uint32_t>(kWholeStartBits));
    const VF zero = hn::Set(kDf, StartOf(out.out));
    const auto pair = [&](size_t r, VF& first, VF& second) HWY_ATTR {
      first = LoadRow<kPart>(x, r, length, stride, count);
      second = LoadRow<kPart>(x, r + 1, length, stride, count);
      const VU own = SubBlockExponent(c, exponent, hn::Max(Magnitude(first), Magnitude(second)));
      const VF rounding = AsFloat(hn::Add(start, hn::Sub(own, least)));
      const VF largest = hn::Mul(AsFloat(hn::Or(own, c.limit_mantissa)), inverse);
      const auto number = [&](VF value) HWY_ATTR {
        const VF rounded = hn::Sub(hn::MulAdd(value, inverse, rounding), rounding);
        return hn::Add(hn::Max(hn::Min(rounded, largest), hn::Neg(largest)), zero);
      };
      first = number(first);
      second = number(second);
    };
    for (size_t r = 0; r < out.count(); r += 4) {
      VF numbers[4];
      pair(r, numbers[0], numbers[1]);
      pair(r + 2, numbers[2], numbers[3]);
      out.Put(r, numbers[0], numbers[1], numbers[2], numbers[3]);
    }
  }

  // Does the same for values in tiles, which are rounded as they are: sums with 1.5 * 2^23 steps
  // round.
  template <bool kPart>
  static HWY_INLINE void NearestValues(const Constants& c, const float* x, size_t length,
                                       size_t stride, size_t count, VU exponent,
                                       const ColumnCodes& out) {
    const VU half = hn::Set(kDu, kOneExponent / 2), upper_half = hn::Set(kDu, 0xFFFF0000U);
    auto* to = reinterpret_cast<uint32_t*>(out.codes);
    for (size_t r = 0; r < 2 * out.pieces; r += 2, to += out.code_stride / sizeof(uint32_t)) {
      const VF first = LoadRow<kPart>(x, r, length, stride, count);
      const VF second = LoadRow<kPart>(x, r + 1, length, stride, count);
      const VU own = SubBlockExponent(c, exponent, hn::Max(Magnitude(first), Magnitude(second)));
      const VF rounding = AsFloat(hn::Or(hn::Add(own, c.magic_offset), half));
      const VF largest = AsFloat(hn::Or(own, c.limit_mantissa));
      const auto value = [&](VF number) HWY_ATTR {
        const VF rounded = hn::Sub(hn::Add(number, rounding), rounding);
        return hn::BitCast(kDu, hn::Max(hn::Min(rounded, largest), hn::Neg(largest)));
      };
      hn::StoreU(hn::OrAnd(hn::ShiftRight<16>(value(first)), value(second), upper_half), kDu, to);
    }
  }

  template <ColumnForm kForm>
  static void AllCodesOf(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                         size_t stride, ColumnCodes out) {
    constexpr size_t kLanes = LaneCount();
    const Constants c(p);
    const formats::BlockUnits rule = *formats::BlockUnitsOf(*p.spec);
    for (size_t i = 0; i < columns; i += kLanes) {
      if (i + kLanes <= columns) {
        Codes<false, kForm>(c, rule, x + i, length, stride, 0, out);
      } else {
        Codes<true, kForm>(c, rule, x + i, length, stride, columns - i, out);
      }
      out.codes += 4 * kLanes;
      out.units += kLanes;
    }
  }

  static void All(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                  size_t stride, const ColumnCodes& out) {
    if (out.form == ColumnForm::kBytes) {
      return AllCodesOf<ColumnForm::kBytes>(p, x, length, columns, stride, out);
    }
#if HWY_TARGET == HWY_AVX3
    if (out.form == ColumnForm::kTiles) {
      return AllCodesOf<ColumnForm::kTiles>(p, x, length, columns, stride, out);
    }
    if (out.form == ColumnForm::kPairs) {
      return AllCodesOf<ColumnForm::kPairs>(p, x, length, columns, stride, out);
    }
#endif
    AllCodesOf<ColumnForm::kWords>(p, x, length, columns, stride, out);
  }
};

// Returns the codes of a kernel.
template <class R, bool kMse, bool kSub>
constexpr BlockCodes<R, kMse, kSub> CodesOf(BlockKernel<R, kMse, kSub>) {
  return {};
}

// The kernels of a family of formats (BlockKernels). Family has the names of the first two for
// NoteRun, and With(params, function), which calls the function with the BlockKernel of a format.
template <class Family>
struct FamilyKernels {
  static void Columns(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                      size_t columns, Strides strides) {
    NoteRun(Family::kColumns, kTargetName);
    Family::With(p, [&](auto kernel) { kernel.AllColumns(p, x, y, length, columns, strides); });
  }
  static void Rows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                   size_t columns, Strides strides) {
    NoteRun(Family::kRows, kTargetName);
    Family::With(p, [&](auto kernel) { kernel.AllRows(p, x, y, length, columns, strides); });
  }
  static void Codes(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                    size_t stride, const ColumnCodes& out) {
    Family::With(p, [&](auto kernel) { CodesOf(kernel).All(p, x, length, columns, stride, out); });
  }
};

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// The versions of a family's kernels for all targets.
#ifndef BITPRESS_BLOCK_TABLES
#define BITPRESS_BLOCK_TABLES(Family)                                                \
  {                                                                                  \
    BITPRESS_DISPATCH_TABLE(Family::Columns), BITPRESS_DISPATCH_TABLE(Family::Rows), \
        BITPRESS_DISPATCH_TABLE(Family::Codes)                                       \
  }
#endif

#endif  // toggle
