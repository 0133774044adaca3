// Products in blocks with the processors' dot products of bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_products_dot.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include "kernels/dispatch.h"

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_with_dot.inc"
#include "kernels/block_products-inl.h"
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE
#include "kernels/product_task.h"

namespace bitpress::kernels {

constexpr ProductKernel kTable[] = BITPRESS_DOT_TABLE(Multiply);

ProductKernel DotProductKernel(size_t target) { return kTable[target]; }

}  // namespace bitpress::kernels
#endif
