// Convolutions in blocks with the processors' dot products of bytes: AVX-512 VNNI and AVX-VNNI.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_convolutions_dot.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define BITPRESS_PRODUCTS_WITH_DOT 1
#if HWY_TARGET == HWY_AVX3
#define BITPRESS_DOT_TARGET HWY_TARGET_STR_AVX3 ",avx512vnni"
#else
#define BITPRESS_DOT_TARGET HWY_TARGET_STR_AVX2 ",avxvnni"
#endif
// Clang takes the first of several target attributes, so these stand in Highway's place.
#define BITPRESS_BEFORE_PRODUCTS HWY_PUSH_ATTRIBUTES(BITPRESS_DOT_TARGET)
#define BITPRESS_AFTER_PRODUCTS HWY_POP_ATTRIBUTES
#define BITPRESS_BEGIN_PRODUCTS namespace with_dot {
#define BITPRESS_END_PRODUCTS }
#endif
#include "kernels/block_convolutions-inl.h"
#undef BITPRESS_BEFORE_PRODUCTS
#undef BITPRESS_AFTER_PRODUCTS
#undef BITPRESS_BEGIN_PRODUCTS
#undef BITPRESS_END_PRODUCTS
#undef BITPRESS_DOT_TARGET
#undef BITPRESS_PRODUCTS_WITH_DOT

#if HWY_ONCE
namespace bitpress::kernels {

ConvolutionKernel DotConvolutionKernel(size_t target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == 0) return &N_AVX3::with_dot::ConvolveWhole;
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == 1) return &N_AVX2::with_dot::ConvolveWhole;
#endif
  return nullptr;
}

}  // namespace bitpress::kernels
#endif
