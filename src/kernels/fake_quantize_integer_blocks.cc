// The kernels for blocks of two's complement elements: mxint8.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_integer_blocks.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

template <class Function>
void WithIntegerBlocks(const FakeQuantizeParams& p, Function&& function) {
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

void IntegerBlocksColumns(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                          size_t columns, Strides strides) {
  NoteRun("IntegerBlocksColumns", kTargetName);
  WithIntegerBlocks(p, [&](auto kernel) { kernel.AllColumns(p, x, y, length, columns, strides); });
}

void IntegerBlocksRows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                       size_t columns, Strides strides) {
  NoteRun("IntegerBlocksRows", kTargetName);
  WithIntegerBlocks(p, [&](auto kernel) { kernel.AllRows(p, x, y, length, columns, strides); });
}

void IntegerBlocksCodes(const FakeQuantizeParams& p, const float* x, size_t length, size_t columns,
                        size_t stride, const ColumnCodes& out) {
  WithIntegerBlocks(p,
                    [&](auto kernel) { CodesOf(kernel).All(p, x, length, columns, stride, out); });
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kIntegerBlocksColumnsTable = BITPRESS_DISPATCH_TABLE(IntegerBlocksColumns);
const KernelTable kIntegerBlocksRowsTable = BITPRESS_DISPATCH_TABLE(IntegerBlocksRows);
const CodesTable kIntegerBlocksCodesTable = BITPRESS_DISPATCH_TABLE(IntegerBlocksCodes);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
