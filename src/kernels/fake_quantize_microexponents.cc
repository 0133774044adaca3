// The kernels for blocks whose sub-blocks shift the shared exponent: mx4, mx6, mx9.
#include "kernels/fake_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fake_quantize_microexponents.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include "kernels/fake_quantize_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

template <class Function>
void WithMicroexponentBlocks(const FakeQuantizeParams& p, Function&& function) {
  WithSignMagnitude<true>(p, function);
}

void MicroexponentBlocksColumns(const FakeQuantizeParams& p, const float* x, float* y,
                                size_t length, size_t columns, Strides strides) {
  NoteRun("MicroexponentBlocksColumns", kTargetName);
  WithMicroexponentBlocks(
      p, [&](auto kernel) { kernel.AllColumns(p, x, y, length, columns, strides); });
}

void MicroexponentBlocksRows(const FakeQuantizeParams& p, const float* x, float* y, size_t length,
                             size_t columns, Strides strides) {
  NoteRun("MicroexponentBlocksRows", kTargetName);
  WithMicroexponentBlocks(p,
                          [&](auto kernel) { kernel.AllRows(p, x, y, length, columns, strides); });
}

void MicroexponentBlocksCodes(const FakeQuantizeParams& p, const float* x, size_t length,
                              size_t columns, size_t stride, const ColumnCodes& out) {
  WithMicroexponentBlocks(
      p, [&](auto kernel) { CodesOf(kernel).All(p, x, length, columns, stride, out); });
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
const KernelTable kMicroexponentBlocksColumnsTable =
    BITPRESS_DISPATCH_TABLE(MicroexponentBlocksColumns);
const KernelTable kMicroexponentBlocksRowsTable = BITPRESS_DISPATCH_TABLE(MicroexponentBlocksRows);
const CodesTable kMicroexponentBlocksCodesTable = BITPRESS_DISPATCH_TABLE(MicroexponentBlocksCodes);
}  // namespace bitpress::kernels
#endif  // HWY_ONCE
