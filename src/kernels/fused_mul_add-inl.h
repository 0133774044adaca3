// A multiply-add that is rounded once, on every instruction set.
#if defined(BITPRESS_KERNELS_FUSED_MUL_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_FUSED_MUL_ADD_INL_H_
#undef BITPRESS_KERNELS_FUSED_MUL_ADD_INL_H_
#else
#define BITPRESS_KERNELS_FUSED_MUL_ADD_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

// Returns a * b + c. Without such an instruction it is slow.
template <class D, class V>
HWY_INLINE V FusedMulAdd(D d, V a, V b, V c) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_NATIVE_FMA
  static_cast<void>(d);
  return hn::MulAdd(a, b, c);
#else
  constexpr size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN float values[3][kLanes];
  hn::Store(a, d, values[0]);
  hn::Store(b, d, values[1]);
  hn::Store(c, d, values[2]);
  for (size_t i = 0; i < kLanes; ++i) {
    values[0][i] = std::fma(values[0][i], values[1][i], values[2][i]);
  }
  return hn::Load(d, values[0]);
#endif
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
