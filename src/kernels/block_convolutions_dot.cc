// Convolutions in blocks with the processors' dot products of bytes, and of words where they have
// them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_convolutions_dot.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include "kernels/dispatch.h"

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_with_dot.inc"
#include "kernels/block_convolutions-inl.h"
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE
namespace bitpress::kernels {

constexpr ConvolutionKernel kTable[] = BITPRESS_DOT_TABLE(ConvolveWhole);

ConvolutionKernel DotConvolutionKernel(size_t target) { return kTable[target]; }

}  // namespace bitpress::kernels
#endif
