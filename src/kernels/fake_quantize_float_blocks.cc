// The kernels for blocks of floating-point elements: mxfp8, mxfp6, mxfp4.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_float_blocks.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

struct FloatBlocks : FamilyKernels<FloatBlocks> {
  static constexpr std::string_view kColumns = "FloatBlocksColumns";
  static constexpr std::string_view kRows = "FloatBlocksRows";

  template <class Function>
  static void With(const FakeQuantizeParams& p, Function&& function) {
    if (p.spec->zero_rule == ZeroRule::kKeepSign) {
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
