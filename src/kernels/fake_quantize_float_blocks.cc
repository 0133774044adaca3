// The kernels for blocks of floating-point elements: mxfp8, mxfp6, mxfp4, nvfp4.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_float_blocks.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Rounds the values of a block whose scale is an E4M3 number. Quotients by it are rounded as the
// Rounder rounds values: that of float32 never turns another number into a tie, because ties times
// scales are float32 numbers.
struct FloatScaleRounder {
  static constexpr bool kIsNearest = false;

  VF scale;
  VU least_exponent;  // the smallest exponent of an element
  VF limit;           // the largest element

  // Returns numbers from `least` to `limit` rounded to so many mantissa bits, ties to even. Numbers
  // below the power of two `least_power` are multiples of its step.
  static HWY_INLINE VF RoundTo(VF x, VU least_power, VU magic_offset) {
    const VU own = hn::And(hn::Max(hn::BitCast(kDu, x), least_power), hn::Set(kDu, kExponent));
    const VF magic = AsFloat(hn::Add(own, magic_offset));
    return hn::Sub(hn::Add(x, magic), magic);
  }

  // Returns the exponent of the largest element.
  static HWY_INLINE VU LargestExponent(const Constants& c) {
    return hn::Set(kDu, (127u << 23) + c.params.emax_offset);
  }

  // Returns the bits of the scales.
  static HWY_INLINE VU ScaleOf(const Constants& c, VU amax) {
    constexpr uint32_t kLeastNormal = (127u - 6) << 23;  // 2^-6 in E4M3
    constexpr uint32_t kMagic = (23u - 3) << 23;         // for 3 mantissa bits
    const VF largest_element = AsFloat(hn::Or(LargestExponent(c), c.limit_mantissa));
    const VF wanted = hn::Min(hn::Div(AsFloat(amax), largest_element), hn::Set(kDf, 448.0F));
    const VF rounded = RoundTo(wanted, hn::Set(kDu, kLeastNormal), hn::Set(kDu, kMagic));
    return hn::BitCast(kDu, hn::Max(rounded, hn::Set(kDf, 0x1p-9F)));
  }

  HWY_INLINE FloatScaleRounder(const Constants& c, VU scale_bits)
      : scale(AsFloat(scale_bits)),
        least_exponent(hn::Sub(LargestExponent(c), c.subnormal_offset)),
        limit(AsFloat(hn::Or(LargestExponent(c), c.limit_mantissa))) {}

  HWY_INLINE VF operator()(const Constants& c, VF x) const {
    const VU bits = hn::BitCast(kDu, x);
    const VU sign = hn::And(bits, hn::Set(kDu, kSign));
    const VF quotient = hn::Min(hn::Div(AsFloat(hn::Xor(bits, sign)), scale), limit);
    const VF rounded = RoundTo(quotient, least_exponent, c.magic_offset);
    return AsFloat(hn::Or(hn::BitCast(kDu, hn::Mul(rounded, scale)), sign));
  }
};

struct FloatBlocks : FamilyKernels<FloatBlocks> {
  static constexpr std::string_view kColumns = "FloatBlocksColumns";
  static constexpr std::string_view kRows = "FloatBlocksRows";

  template <class Function>
  static void With(const FakeQuantizeParams& p, Function&& function) {
    if (!p.spec->has_exponent_scales()) {
      function(BlockKernel<FloatScaleRounder, false, false>());
    } else if (p.spec->zero_rule == ZeroRule::kKeepSign) {
      WithScaleChoice<false, Rounder<Element::kFloat, true, ZeroRule::kKeepSign>>(p, function);
    } else {
      WithScaleChoice<false, Rounder<Element::kFloat, true, ZeroRule::kPositive>>(p, function);
    }
  }
};

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const BlockKernels kFloatBlocks = BITPRESS_BLOCK_TABLES(FloatBlocks);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
