// The kernels for blocks of two's complement elements: mxint8.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_integer_blocks.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

struct IntegerBlocks : FamilyKernels<IntegerBlocks> {
  static constexpr std::string_view kColumns = "IntegerBlocksColumns";
  static constexpr std::string_view kRows = "IntegerBlocksRows";

  template <class Function>
  static void With(const FakeQuantizeParams& p, Function&& function) {
    constexpr Element kElement = Element::kTwosComplement;
    const bool half_to_even = p.spec->rounding == RoundingMode::kHalfToEven;
    if (half_to_even && p.spec->zero_rule == ZeroRule::kQuarkNearest) {
      WithScaleChoice<false, Rounder<kElement, true, ZeroRule::kQuarkNearest>>(p, function);
    } else if (half_to_even) {
      WithScaleChoice<false, Rounder<kElement, true, ZeroRule::kPositive>>(p, function);
    } else if (p.spec->zero_rule == ZeroRule::kKeepSign) {
      WithScaleChoice<false, Rounder<kElement, false, ZeroRule::kKeepSign>>(p, function);
    } else {
      WithScaleChoice<false, Rounder<kElement, false, ZeroRule::kPositive>>(p, function);
    }
  }
};

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const BlockKernels kIntegerBlocks = BITPRESS_BLOCK_TABLES(IntegerBlocks);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
