// Convolutions in blocks with the processors' dot products of bytes: AVX-512 VNNI and AVX-VNNI.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_convolutions_dot.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_with_dot.inc"
#include "kernels/block_convolutions-inl.h"
#include "kernels/products_end.inc"
// clang-format on

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
