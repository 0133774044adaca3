// The kernels for formats without blocks: fp16, bf16, fp8.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_elements.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize-inl.h"

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

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kFloatElementsTable = BITPRESS_DISPATCH_TABLE(FloatElements);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
