// The kernels for blocks of floating-point elements: mxfp8, mxfp6, mxfp4.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_float_blocks.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

template <class Function>
void WithFloatBlocks(const FakeQuantizeParams& p, Function&& function) {
  if (p.spec->zero_rule == ZeroRule::kKeepSign) {
    WithScaleChoice<false, Rounder<Element::kFloat, true, ZeroRule::kKeepSign>>(p, function);
  } else {
    WithScaleChoice<false, Rounder<Element::kFloat, true, ZeroRule::kPositive>>(p, function);
  }
}

void FloatBlocksColumns(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                        size_t columns, Strides strides) {
  NoteRun("FloatBlocksColumns", kTargetName);
  WithFloatBlocks(p, [&](auto kernel) { kernel.AllColumns(p, x, y, length, columns, strides); });
}

void FloatBlocksRows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                     size_t columns, Strides strides) {
  NoteRun("FloatBlocksRows", kTargetName);
  WithFloatBlocks(p, [&](auto kernel) { kernel.AllRows(p, x, y, length, columns, strides); });
}

void FloatBlocksCodes(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                      size_t stride, const ColumnCodes& out) {
  WithFloatBlocks(p, [&](auto kernel) { CodesOf(kernel).All(p, x, length, columns, stride, out); });
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kFloatBlocksColumnsTable = BITPRESS_DISPATCH_TABLE(FloatBlocksColumns);
const KernelTable kFloatBlocksRowsTable = BITPRESS_DISPATCH_TABLE(FloatBlocksRows);
const CodesTable kFloatBlocksCodesTable = BITPRESS_DISPATCH_TABLE(FloatBlocksCodes);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
