// What is done to sums at their end, on every instruction set.
#if defined(BITPRESS_KERNELS_LIMITED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_LIMITED_INL_H_
#undef BITPRESS_KERNELS_LIMITED_INL_H_
#else
#define BITPRESS_KERNELS_LIMITED_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Limits sums. NaN stays, and of two zeros the sum.
template <class V>
HWY_INLINE V Limited(V sum, V least, V largest) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // The processor returns the second operand of NaN and a limit, and so for zeros.
  return hn::Min(largest, hn::Max(least, sum));
#else
  sum = hn::IfThenElse(hn::Lt(sum, least), least, sum);
  return hn::IfThenElse(hn::Gt(sum, largest), largest, sum);
#endif
}

// Multiplies negative sums by a slope, as a LeakyRelu does. NaN stays.
template <class V>
HWY_INLINE V Sloped(V sum, V slope) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto zero = hn::Zero(hn::DFromV<V>());
  return hn::IfThenElse(hn::Lt(sum, zero), hn::Mul(sum, slope), sum);
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
