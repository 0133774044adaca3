// How positions of a plane are read, many at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/plane_rows.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/plane_grid.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kMostBehind + 1> kDf;
using VF = hn::VFromD<decltype(kDf)>;
constexpr ptrdiff_t kLanes = static_cast<ptrdiff_t>(hn::MaxLanes(kDf));

// Loads the values [at, at + lanes) of a row, zeros outside [0, width).
HWY_INLINE VF LoadInside(const float* row, ptrdiff_t at, ptrdiff_t width) {
  if (HWY_LIKELY(at >= 0 && at + kLanes <= width)) return hn::LoadU(kDf, row + at);
  const ptrdiff_t from = std::clamp<ptrdiff_t>(-at, 0, kLanes);
  const ptrdiff_t until = std::clamp<ptrdiff_t>(width - at, from, kLanes);
#if HWY_TARGET <= HWY_AVX2
  const auto inside = hn::AndNot(hn::FirstN(kDf, static_cast<size_t>(from)),
                                 hn::FirstN(kDf, static_cast<size_t>(until)));
  return hn::MaskedLoad(inside, kDf, row + at);
#else
  HWY_ALIGN float buffer[kLanes] = {};
  std::copy(row + at + from, row + at + until, buffer + from);
  return hn::Load(kDf, buffer);
#endif
}

// Writes `count` values of a row, of which the first is the one at `at`.
HWY_INLINE void ReadRow(const float* row, ptrdiff_t at, ptrdiff_t width, ptrdiff_t stride,
                        ptrdiff_t count, float* to) {
#if HWY_TARGET != HWY_SCALAR
  if (stride == 1) {
    for (ptrdiff_t i = 0; i < count; i += kLanes) {
      hn::StoreU(LoadInside(row, at + i, width), kDf, to + i);
    }
    return;
  }
  if (stride == 2) {
    for (ptrdiff_t i = 0; i < count; i += kLanes, at += 2 * kLanes) {
      const VF low = LoadInside(row, at, width), high = LoadInside(row, at + kLanes, width);
      hn::StoreU(hn::ConcatEven(kDf, high, low), kDf, to + i);
    }
    return;
  }
#endif
  for (ptrdiff_t i = 0; i < count; ++i, at += stride) {
    to[i] = at >= 0 && at < width ? row[at] : 0.0F;
  }
}

void ReadRows(const PlaneRows& rows, float* to) {
  const auto pitch = static_cast<ptrdiff_t>(rows.pitch);
  const auto width = static_cast<ptrdiff_t>(rows.width);
  const auto height = static_cast<ptrdiff_t>(rows.height);
  const auto stride = static_cast<ptrdiff_t>(rows.stride_x);
  const auto begin = static_cast<ptrdiff_t>(rows.begin);
  ptrdiff_t left = static_cast<ptrdiff_t>(rows.count);
  ptrdiff_t column = begin % pitch;
  ptrdiff_t y = rows.first_y + begin / pitch * static_cast<ptrdiff_t>(rows.stride_y);
  for (; left > 0; y += static_cast<ptrdiff_t>(rows.stride_y)) {
    const ptrdiff_t count = std::min(left, pitch - column);
    const bool is_inside = y >= 0 && y < height;
    // Rows outside are as wide as nothing.
    ReadRow(rows.plane + (is_inside ? y * width : 0), rows.first_x + column * stride,
            is_inside ? width : 0, stride, count, to);
    to += count;
    left -= count;
    column = 0;
  }
}

void ReadSplit(const SplitRow& row, float* to, size_t to_stride) {
  for (size_t c = 0; c < row.channels; ++c) {
    ReadRow(row.values + c * row.channel_stride, row.first, static_cast<ptrdiff_t>(row.width),
            static_cast<ptrdiff_t>(row.stride), static_cast<ptrdiff_t>(row.count),
            to + c * to_stride);
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using ReadKernel = void (*)(const PlaneRows&, float*);
constexpr ReadKernel kReadTable[] = BITPRESS_DISPATCH_TABLE(ReadRows);

using SplitKernel = void (*)(const SplitRow&, float*, size_t);
constexpr SplitKernel kSplitTable[] = BITPRESS_DISPATCH_TABLE(ReadSplit);

void ReadSplitRow(const SplitRow& row, float* to, size_t to_stride) {
  kSplitTable[ChosenTargetIndex()](row, to, to_stride);
}

void ReadPlaneRows(const PlaneRows& rows, float* to) { kReadTable[ChosenTargetIndex()](rows, to); }

}  // namespace bitpress::kernels
#endif
