// This is done to sums at their end, on every instruction set.
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

// Multiplies negative sums by a slope, as a LeakyRelu does, and limits them. NaN stays.
template <class V>
class SlopeAndLimits {
 public:
  template <class D>
  HWY_INLINE SlopeAndLimits(D d, float slope, float least, float largest)
      : slope_(hwy::HWY_NAMESPACE::Set(d, slope)),
        least_(hwy::HWY_NAMESPACE::Set(d, least)),
        largest_(hwy::HWY_NAMESPACE::Set(d, largest)),
        has_slope_(slope != 1) {}

  HWY_INLINE V operator()(V sum) const {
    namespace hn = hwy::HWY_NAMESPACE;
    if (HWY_UNLIKELY(has_slope_)) {
      const auto zero = hn::Zero(hn::DFromV<V>());
      sum = hn::IfThenElse(hn::Lt(sum, zero), hn::Mul(sum, slope_), sum);
    }
    return Limited(sum, least_, largest_);
  }

 private:
  V slope_, least_, largest_;
  bool has_slope_;
};

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
