// The kernels for block floating point: blocks of sign-magnitude elements.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_bfp.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

template <class Function>
void WithSignMagnitudeBlocks(const FakeQuantizeParams& p, Function&& function) {
  WithSignMagnitude<false>(p, function);
}

void SignMagnitudeBlocksColumns(const FakeQuantizeParams& p, const float* x, float* y,
                                size_t length, size_t columns, Strides strides) {
  NoteRun("SignMagnitudeBlocksColumns", kTargetName);
  WithSignMagnitudeBlocks(
      p, [&](auto kernel) { kernel.AllColumns(p, x, y, length, columns, strides); });
}

void SignMagnitudeBlocksRows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                             size_t columns, Strides strides) {
  NoteRun("SignMagnitudeBlocksRows", kTargetName);
  WithSignMagnitudeBlocks(p,
                          [&](auto kernel) { kernel.AllRows(p, x, y, length, columns, strides); });
}

void SignMagnitudeBlocksCodes(const FakeQuantizeParams& p, const float* x, size_t length,
                              size_t columns, size_t stride, const ColumnCodes& out) {
  WithSignMagnitudeBlocks(
      p, [&](auto kernel) { CodesOf(kernel).All(p, x, length, columns, stride, out); });
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kSignMagnitudeBlocksColumnsTable =
    BITPRESS_DISPATCH_TABLE(SignMagnitudeBlocksColumns);
const KernelTable kSignMagnitudeBlocksRowsTable = BITPRESS_DISPATCH_TABLE(SignMagnitudeBlocksRows);
const CodesTable kSignMagnitudeBlocksCodesTable = BITPRESS_DISPATCH_TABLE(SignMagnitudeBlocksCodes);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
