// The kernels for formats without blocks: fp16, bf16, fp8.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_elements.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <algorithm>

#include "kernels/column_codes.h"
#include "kernels/fake_quantize-inl.h"
#include "kernels/tile_convolution_units.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Rounds to bfloat16. It shares float32's exponents, subnormals included, so it is rounded as an
// integer: half of the dropped bits' range less one, plus the last kept bit, is added.
HWY_INLINE VF RoundBFloat16(VU magnitude) {
  const VU odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(kDu, 1u));
  const VU rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(kDu, 0x7FFFu)));
  return AsFloat(hn::And(rounded, hn::Set(kDu, 0xFFFF0000u)));
}

// Rounds to an element type. With kPassInfinity infinities stay (fp16, bf16), without they saturate
// (fp8). NaN always stays.
template <bool kBFloat16, bool kPassInfinity>
HWY_INLINE VF RoundElement(const FakeQuantizeParams& p, VF x) {
  const VU bits = hn::BitCast(kDu, x);
  const VU sign = hn::And(bits, hn::Set(kDu, kSign));
  const VU magnitude = hn::Xor(bits, sign);
  const VU limited = hn::Min(magnitude, hn::Set(kDu, p.limit));
  VF rounded;
  if constexpr (kBFloat16) {
    rounded = RoundBFloat16(limited);
  } else {
    const VU own =
        hn::And(hn::Max(limited, hn::Set(kDu, p.least_exponent)), hn::Set(kDu, kExponent));
    const VF magic = AsFloat(hn::Add(own, hn::Set(kDu, p.magic_offset)));
    rounded = hn::Sub(hn::Add(AsFloat(limited), magic), magic);
  }
  const VF y = AsFloat(hn::Or(hn::BitCast(kDu, rounded), sign));
  const uint32_t largest_changed = kPassInfinity ? kExponent - 1 : kExponent;
  const auto stays =
      hn::Gt(hn::BitCast(kDi, magnitude), hn::Set(kDi, static_cast<int32_t>(largest_changed)));
  return hn::IfThenElse(hn::RebindMask(kDf, stays), x, y);
}

template <bool kBFloat16, bool kPassInfinity>
void Elements(const FakeQuantizeParams& p, const float* x, float* y, size_t length) {
  constexpr size_t kLanes = LaneCount();
  size_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    hn::StoreU(RoundElement<kBFloat16, kPassInfinity>(p, hn::LoadU(kDf, x + i)), kDf, y + i);
  }
  if (i < length) {
    StoreUpTo<true>(RoundElement<kBFloat16, kPassInfinity>(p, LoadUpTo<true>(x + i, length - i)),
                    y + i, length - i);
  }
}

void FloatElements(const FakeQuantizeParams& p, const float* x, float* y, size_t length, size_t,
                   Strides) {
  NoteRun("FloatElements", kTargetName);
  const bool pass_infinity = p.spec->special_rule == formats::SpecialRule::kPass;
  if (p.spec->element_type == formats::ElementType::kBFloat16) {
    Elements<true, true>(p, x, y, length);
  } else if (pass_infinity) {
    Elements<false, true>(p, x, y, length);
  } else {
    Elements<false, false>(p, x, y, length);
  }
}

// The magnitudes of bfloat16 that tiles take, but for zeros.
struct TileRange {
  explicit TileRange(const ColumnCodes& out) {
    // Elements of 8-bit floats are multiples of 2^-17 of a unit, and these of 2^-7 of their
    // exponent.
    constexpr unsigned kBits = 17 - 7;
    least = uint32_t{out.least_tile_column - kBits} << 23U;
    largest = (uint32_t{kLargestTileColumn} << 23U) + kMantissa;
  }
  uint32_t least, largest;
};

// A vector of columns: `count` of them, whose rows are `stride` apart.
struct Bfloat16Columns {
  const float* x;
  size_t length, stride, count;

  HWY_INLINE VF Row(size_t row) const {
    if (row >= length) return hn::Zero(kDf);
    const float* const from = x + row * stride;
    __builtin_prefetch(from + 8 * LaneCount(), /*for writing=*/0, /*second level=*/2);
    return count == LaneCount() ? hn::LoadU(kDf, from) : LoadUpTo<true>(from, count);
  }
};

// Writes pieces of two rows. value(x) gives the bits of a row's values, rounded to bfloat16.
template <class Value>
HWY_INLINE void WritePieces(const Bfloat16Columns& columns, const ColumnCodes& out,
                            const Value& value) {
  const VU upper_half = hn::Set(kDu, 0xFFFF0000U);
  for (size_t piece = 0; piece < out.pieces; ++piece) {
    const VU low = hn::ShiftRight<16>(value(columns.Row(LowerOf(out.form, piece))));
    const VU high = hn::And(value(columns.Row(UpperOf(out.form, piece))), upper_half);
    hn::StoreU(hn::Or(low, high), kDu,
               reinterpret_cast<uint32_t*>(out.codes + piece * out.code_stride));
  }
}

// Rounds columns whose magnitudes are all within the range or zeros. Returns false if others might
// be there: then what it wrote is wrong.
HWY_INLINE bool CloseBfloat16Codes(const Bfloat16Columns& columns, const TileRange& range,
                                   const ColumnCodes& out) {
  const VU one = hn::Set(kDu, 1U);
  VU most = hn::Zero(kDu), least = hn::Set(kDu, 0xFFFFFFFFU);  // of all magnitudes less one
  WritePieces(columns, out, [&](VF x) HWY_ATTR {
    const VU bits = hn::BitCast(kDu, x);
    const VU less = hn::Sub(hn::And(bits, hn::Set(kDu, ~kSign)), one);  // zeros become the largest
    most = hn::Max(most, hn::Add(less, one));
    least = hn::Min(least, less);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), one);
    return hn::Add(bits, hn::Add(odd, hn::Set(kDu, 0x7FFFU)));
  });
  const auto is_far = hn::Or(hn::Lt(least, hn::Set(kDu, range.least - 1)),
                             hn::Gt(most, hn::Set(kDu, range.largest & 0xFFFF0000U)));
  return hn::AllFalse(kDu, is_far);
}

// Rounds any columns. Returns whether one is beyond the range.
HWY_INLINE bool FarBfloat16Codes(const FakeQuantizeParams& p, const Bfloat16Columns& columns,
                                 const TileRange& range, const ColumnCodes& out) {
  const VU least = hn::Set(kDu, range.least), largest = hn::Set(kDu, range.largest);
  const VU infinity = hn::Set(kDu, kExponent), nan = hn::Set(kDu, 0x7FC00000U);
  VU far = hn::Zero(kDu);
  WritePieces(columns, out, [&](VF x) HWY_ATTR {
    const VU bits = hn::BitCast(kDu, RoundElement<true, true>(p, x));
    const VU magnitude = hn::And(bits, hn::Set(kDu, ~kSign));
    const auto is_nan = hn::Gt(magnitude, infinity);
    const auto is_tiny = hn::And(hn::Lt(magnitude, least), hn::Gt(magnitude, hn::Zero(kDu)));
    const auto is_huge = hn::AndNot(is_nan, hn::Gt(magnitude, largest));
    far = hn::Or(far, hn::VecFromMask(kDu, hn::Or(is_tiny, is_huge)));
    return hn::IfThenElse(is_nan, nan, bits);
  });
  return !hn::AllTrue(kDu, hn::Eq(far, hn::Zero(kDu)));
}

// Rounds columns to bfloat16, two rows to a piece.
void Bfloat16Codes(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                   size_t stride, const ColumnCodes& codes) {
  constexpr size_t kLanes = LaneCount();
  constexpr hn::Rebind<uint8_t, DF> kBytes;
  const TileRange range(codes);
  ColumnCodes out = codes;
  for (size_t c = 0; c < columns; c += kLanes) {
    const Bfloat16Columns of_vector{x + c, length, stride, std::min(kLanes, columns - c)};
    if (HWY_UNLIKELY(!CloseBfloat16Codes(of_vector, range, out)) &&
        FarBfloat16Codes(p, of_vector, range, out)) {
      *out.has_large_unit = true;
    }
    hn::StoreU(hn::Set(kBytes, uint8_t{formats::kUnitBias}), kBytes, out.units);
    out.codes += 4 * kLanes;
    out.units += kLanes;
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kFloatElementsTable = BITPRESS_DISPATCH_TABLE(FloatElements);
const CodesTable kBfloat16CodesTable = BITPRESS_DISPATCH_TABLE(Bfloat16Codes);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
