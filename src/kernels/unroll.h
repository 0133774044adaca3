// Loops over vectors that must stay in registers. A compiler keeps an array there only if no index
// is known at run time alone, which it does not see in every loop.
#pragma once

#include <hwy/base.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace bitpress::kernels {

template <size_t... kIndices, typename Run>
HWY_INLINE void UnrollOver(std::index_sequence<kIndices...>, const Run& run) {
  (run(std::integral_constant<size_t, kIndices>()), ...);
}

// Calls run(i) for i = 0, ..., kCount - 1, each of which is a constant.
template <size_t kCount, typename Run>
HWY_INLINE void Unroll(const Run& run) {
  UnrollOver(std::make_index_sequence<kCount>(), run);
}

}  // namespace bitpress::kernels
