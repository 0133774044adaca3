// Convolutions in blocks with dot products of bfloat16 (pair_sums-inl.h says how).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_convolutions_pairs.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include "kernels/dispatch.h"

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_with_pairs.inc"
#include "kernels/tile_convolutions-inl.h"
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE
#include "kernels/convolution_task.h"

namespace bitpress::kernels {

ConvolutionKernel PairConvolutionKernel() {
#if BITPRESS_HAS_TILES
  return &N_AVX3::with_pairs::Convolve;
#else
  return nullptr;
#endif
}

}  // namespace bitpress::kernels
#endif
