// The kernels for blocks of sign-magnitude elements: block floating point, and mx4, mx6, mx9, whose
// sub-blocks shift the shared exponent.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_bfp.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

struct SignMagnitudeBlocks : FamilyKernels<SignMagnitudeBlocks> {
  static constexpr std::string_view kColumns = "SignMagnitudeBlocksColumns";
  static constexpr std::string_view kRows = "SignMagnitudeBlocksRows";

  template <class Function>
  static void With(const FakeQuantizeParams& p, Function&& function) {
    WithSignMagnitude<false>(p, function);
  }
};

struct MicroexponentBlocks : FamilyKernels<MicroexponentBlocks> {
  static constexpr std::string_view kColumns = "MicroexponentBlocksColumns";
  static constexpr std::string_view kRows = "MicroexponentBlocksRows";

  template <class Function>
  static void With(const FakeQuantizeParams& p, Function&& function) {
    WithSignMagnitude<true>(p, function);
  }
};

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const BlockKernels kSignMagnitudeBlocks = BITPRESS_BLOCK_TABLES(SignMagnitudeBlocks);
const BlockKernels kMicroexponentBlocks = BITPRESS_BLOCK_TABLES(MicroexponentBlocks);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
