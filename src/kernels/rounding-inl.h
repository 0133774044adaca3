// The arithmetic of quantize-dequantize: it rounds vectors of values to a block's grid. It is
// compiled once a target and included by the files of the kernel families only.
//
// A value is rounded without leaving float32: adding and subtracting 2^(e + 23 - m) rounds a
// magnitude below 2^(e + 1) to a multiple of 2^(e - m), ties to even, because that is the unit in
// the last place of the sum. Both operations are exact otherwise. The same trick with the exponent
// of each element (float elements) or of its block (integer elements) gives all formats. It holds
// while no exponent involved leaves float32's normal range. Blocks whose largest magnitude is below
// 2^-63 or not below 2^98, NaN or infinite are left to the scalar reference. All-zero blocks are
// not among them.
#if defined(BITPRESS_KERNELS_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_ROUNDING_INL_H_
#undef BITPRESS_KERNELS_ROUNDING_INL_H_
#else
#define BITPRESS_KERNELS_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "kernels/dispatch.h"
#include "kernels/fake_quantize.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using formats::RoundingMode;
using formats::ZeroRule;

// Arrays of vectors below need vectors of fixed size, which x86 and Arm NEON have.
using DF = hn::ScalableTag<float>;
using DU = hn::ScalableTag<uint32_t>;
using DI = hn::ScalableTag<int32_t>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using VI = hn::Vec<DI>;
constexpr DF kDf;
constexpr DU kDu;
constexpr DI kDi;
HWY_INLINE constexpr size_t LaneCount() { return HWY_LANES(float); }

constexpr uint32_t kSign = formats::kFloatSignBit;
constexpr uint32_t kExponent = formats::kFloatExponentMask;
constexpr uint32_t kMantissa = formats::kFloatMantissaMask;
constexpr uint32_t kOneExponent = 1u << formats::kFloatMantissaBits;
// The bounds of a block's largest magnitude for the vector code (see above).
constexpr uint32_t kLeastAmax = 64u << 23;
constexpr uint32_t kTopAmax = 225u << 23;

constexpr std::string_view kTargetName = NameOfTarget(HWY_TARGET);

using Element = formats::ElementKind;

HWY_INLINE VU Magnitude(VF x) { return hn::And(hn::BitCast(kDu, x), hn::Set(kDu, ~kSign)); }
HWY_INLINE VF AsFloat(VU bits) { return hn::BitCast(kDf, bits); }

// Returns whether the reference must do the block of some lane.
HWY_INLINE bool AnySpecial(VU amax) {
  const auto signed_amax = hn::BitCast(
      kDi, amax);  // magnitudes are not negative as int32, and int32 compares everywhere
  const auto is_small = hn::And(hn::Lt(signed_amax, hn::Set(kDi, static_cast<int32_t>(kLeastAmax))),
                                hn::Gt(signed_amax, hn::Zero(kDi)));
  const auto is_large = hn::Gt(signed_amax, hn::Set(kDi, static_cast<int32_t>(kTopAmax - 1)));
  return !hn::AllFalse(kDi, hn::Or(is_small, is_large));
}

// The parameters as vectors. They are made once a call and live in registers. Read from the struct
// in the loop they would be loaded again after every store, because the compiler cannot know that
// it did not change them.
struct Constants {
  VU least_exponent, largest_exponent, max_shift, limit_mantissa, subnormal_offset, magic_offset;
  hn::Vec<DI> exponent_threshold;
  bool half_up;
  size_t sub_block_size;
  const FakeQuantizeParams& params;

  HWY_INLINE explicit Constants(const FakeQuantizeParams& p)
      : least_exponent(hn::Set(kDu, p.least_exponent)),
        largest_exponent(hn::Set(kDu, p.largest_exponent)),
        max_shift(hn::Set(kDu, p.max_shift)),
        limit_mantissa(hn::Set(kDu, p.limit_mantissa)),
        subnormal_offset(hn::Set(kDu, p.subnormal_offset)),
        magic_offset(hn::Set(kDu, p.magic_offset)),
        exponent_threshold(hn::Set(kDi, static_cast<int32_t>(p.exponent_threshold))),
        half_up(p.spec->rounding == RoundingMode::kHalfUp),
        sub_block_size(p.sub_block_size),
        params(p) {}
};

// Limits the exponent of the block's largest value, which is the shared exponent plus emax.
HWY_INLINE VU LimitExponent(const Constants& c, VU exponent) {
  return hn::Min(hn::Max(exponent, c.least_exponent), c.largest_exponent);
}
HWY_INLINE VU WantedExponent(const Constants& c, VU amax) {
  const auto mantissa = hn::BitCast(kDi, hn::And(amax, hn::Set(kDu, kMantissa)));
  const auto raise = hn::RebindMask(kDu, hn::Gt(mantissa, c.exponent_threshold));
  const VU one = hn::IfThenElseZero(raise, hn::Set(kDu, kOneExponent));
  return hn::Add(hn::And(amax, hn::Set(kDu, kExponent)), one);
}
HWY_INLINE VU BlockExponent(const Constants& c, VU amax) {
  return LimitExponent(c, WantedExponent(c, amax));
}

// Returns the exponent of a sub-block: that which its own largest value wants, lowered from the
// block's by at most max_shift.
HWY_INLINE VU SubBlockExponent(const Constants& c, VU block_exponent, VU sub_amax) {
  const VU least = hn::Sub(block_exponent, c.max_shift);
  return hn::Min(hn::Max(WantedExponent(c, sub_amax), least), block_exponent);
}

// Rounds the values of a block whose exponent is known.
template <Element kElement, bool kHalfToEven, ZeroRule kZero>
struct Rounder {
  VU exponent;  // float elements: the smallest exponent of an element
  VF magic;     // integer elements: see the top of the file
  VF limit;
  VF limit_negative;
  VF step;
  VF half_step;

  HWY_INLINE Rounder(const Constants& c, VU block_exponent) {
    limit = AsFloat(hn::Or(block_exponent, c.limit_mantissa));
    if constexpr (kElement == Element::kFloat) {
      exponent = hn::Sub(block_exponent, c.subnormal_offset);
    } else {
      const VU magic_bits = hn::Add(block_exponent, c.magic_offset);
      magic = AsFloat(kIsQuick ? hn::Or(magic_bits, hn::Set(kDu, kOneExponent / 2)) : magic_bits);
      if constexpr (kElement == Element::kTwosComplement) {
        limit_negative = hn::Neg(AsFloat(hn::Add(block_exponent, hn::Set(kDu, kOneExponent))));
      }
      if constexpr (!kHalfToEven) {
        const VU step_bits = hn::Sub(magic_bits, hn::Set(kDu, 23u << 23));
        step = AsFloat(step_bits);
        half_step = AsFloat(hn::Sub(step_bits, hn::Set(kDu, kOneExponent)));
      }
    }
  }

  // Returns the scale of blocks from their largest magnitudes, in the form that the rounder takes.
  static HWY_INLINE VU ScaleOf(const Constants& c, VU amax) { return BlockExponent(c, amax); }

  // Sums with 1.5 * 2^23 steps round, signs included: no zero keeps its sign.
  static constexpr bool kIsQuick =
      kElement == Element::kTwosComplement && kHalfToEven && kZero == ZeroRule::kPositive;
  // Elements are the nearest whole numbers within limits.
  static constexpr bool kIsNearest = kElement != Element::kFloat && kHalfToEven;

  HWY_INLINE VF operator()(const Constants& c, VF x) const {
    if constexpr (kIsQuick) {
      const VF rounded = hn::Sub(hn::Add(x, magic), magic);
      return hn::Max(hn::Min(rounded, limit), limit_negative);
    }
    const VU bits = hn::BitCast(kDu, x);
    const VU sign = hn::And(bits, hn::Set(kDu, kSign));
    const VU magnitude = hn::Xor(bits, sign);
    const VF a = AsFloat(magnitude);
    VF rounded;
    if constexpr (kElement == Element::kFloat) {
      const VU own = hn::And(hn::Max(magnitude, exponent), hn::Set(kDu, kExponent));
      const VF own_magic = AsFloat(hn::Add(own, c.magic_offset));
      rounded = hn::Min(hn::Sub(hn::Add(a, own_magic), own_magic), limit);
    } else {
      rounded = hn::Sub(hn::Add(a, magic), magic);
      if constexpr (!kHalfToEven) rounded = FixTies(c, a, rounded, sign);
      if constexpr (kElement == Element::kSignMagnitude) rounded = hn::Min(rounded, limit);
    }
    VF y = AsFloat(hn::Or(hn::BitCast(kDu, rounded), sign));
    if constexpr (kElement == Element::kTwosComplement)
      y = hn::Max(hn::Min(y, limit), limit_negative);
    if constexpr (kZero != ZeroRule::kKeepSign) y = hn::Add(y, hn::Zero(kDf));  // -0 + 0 is +0
    if constexpr (kZero == ZeroRule::kQuarkNearest) {
      y = hn::IfThenElse(hn::RebindMask(kDf, hn::Eq(magnitude, hn::Zero(kDu))), x, y);
    }
    return y;
  }

  // Turns ties to even into half away from zero, or half up (towards zero for negative values). A
  // tie is half a step away from its rounded value.
  HWY_INLINE VF FixTies(const Constants& c, VF a, VF rounded, VU sign) const {
    const VU up_only = c.half_up ? sign : hn::Zero(kDu);
    const auto towards_zero = hn::RebindMask(kDf, hn::Ne(up_only, hn::Zero(kDu)));
    const auto tie_went_down = hn::Eq(hn::Sub(a, rounded), half_step);
    const auto tie_went_up = hn::Eq(hn::Sub(rounded, a), half_step);
    const VF away = hn::IfThenElse(tie_went_down, hn::Add(rounded, step), rounded);
    const VF zero = hn::IfThenElse(tie_went_up, hn::Sub(rounded, step), rounded);
    return hn::IfThenElse(towards_zero, zero, away);
  }
};

// Load and store vectors or parts of one, without touching memory behind the part.
HWY_INLINE VF LoadPart(const float* from, size_t count) {
  HWY_ALIGN float buffer[HWY_LANES(float)] = {};
  std::memcpy(buffer, from, count * sizeof(float));
  return hn::Load(kDf, buffer);
}
HWY_INLINE void StorePart(VF value, float* to, size_t count) {
  HWY_ALIGN float buffer[HWY_LANES(float)];
  hn::Store(value, kDf, buffer);
  std::memcpy(to, buffer, count * sizeof(float));
}
template <bool kPart>
HWY_INLINE VF LoadUpTo(const float* from, size_t count) {
  if constexpr (!kPart) return hn::LoadU(kDf, from);
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(kDf, count), kDf, from);
#else
  return LoadPart(from, count);
#endif
}
template <bool kPart>
HWY_INLINE void StoreUpTo(VF value, float* to, size_t count) {
  if constexpr (!kPart) return hn::StoreU(value, kDf, to);
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(value, hn::FirstN(kDf, count), kDf, to);
#else
  StorePart(value, to, count);
#endif
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
