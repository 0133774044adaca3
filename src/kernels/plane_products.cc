#include "kernels/plane_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/plane_products.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kPlaneStep> kPlaneD;
constexpr size_t kPlaneParts = kPlaneStep / hn::MaxLanes(kPlaneD);

void Correlate(const float* x, size_t count, std::span<const float> taps,
               std::span<const size_t> offsets, float start, float* y) {
  constexpr size_t kLanes = hn::MaxLanes(kPlaneD);
  for (size_t i = 0; i < count; i += kPlaneStep) {
    hn::VFromD<decltype(kPlaneD)> sums[kPlaneParts];
    for (auto& sum : sums) sum = hn::Set(kPlaneD, start);
    for (size_t t = 0; t < taps.size(); ++t) {
      const auto tap = hn::Set(kPlaneD, taps[t]);
      const float* const from = x + i + offsets[t];
      for (size_t part = 0; part < kPlaneParts; ++part) {
        sums[part] = hn::MulAdd(tap, hn::LoadU(kPlaneD, from + part * kLanes), sums[part]);
      }
    }
    for (size_t part = 0; part < kPlaneParts; ++part) {
      hn::StoreU(sums[part], kPlaneD, y + i + part * kLanes);
    }
  }
}

void AddProductsOfPlane(const float* x, const float* g, size_t count,
                        std::span<const size_t> offsets, float* sums) {
  constexpr size_t kLanes = hn::MaxLanes(kPlaneD);
  // Several taps at once: their sums do not wait for each other, and g is loaded once for them.
  constexpr size_t kTaps = 5;
  for (size_t first = 0; first < offsets.size(); first += kTaps) {
    const size_t num = std::min(kTaps, offsets.size() - first);
    hn::VFromD<decltype(kPlaneD)> of_taps[kTaps];
    size_t from[kTaps];
    for (size_t t = 0; t < kTaps; ++t) {
      of_taps[t] = hn::Zero(kPlaneD);
      from[t] = offsets[first + std::min(t, num - 1)];
    }
    for (size_t i = 0; i < count; i += kLanes) {
      const auto factor = hn::LoadU(kPlaneD, g + i);
      for (size_t t = 0; t < kTaps; ++t) {
        of_taps[t] = hn::MulAdd(factor, hn::LoadU(kPlaneD, x + i + from[t]), of_taps[t]);
      }
    }
    for (size_t t = 0; t < num; ++t) {
      sums[first + t] += hn::GetLane(hn::SumOfLanes(kPlaneD, of_taps[t]));
    }
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using CorrelateKernel = void (*)(const float*, size_t, std::span<const float>,
                                 std::span<const size_t>, float, float*);
using AddKernel = void (*)(const float*, const float*, size_t, std::span<const size_t>, float*);
constexpr CorrelateKernel kCorrelateTable[] = BITPRESS_DISPATCH_TABLE(Correlate);
constexpr AddKernel kAddProductsOfPlaneTable[] = BITPRESS_DISPATCH_TABLE(AddProductsOfPlane);

void CorrelatePlane(const float* x, size_t count, std::span<const float> taps,
                    std::span<const size_t> offsets, float start, float* y) {
  kCorrelateTable[ChosenTargetIndex()](x, count, taps, offsets, start, y);
}

void AddPlaneProducts(const float* x, const float* g, size_t count, std::span<const size_t> offsets,
                      float* sums) {
  kAddProductsOfPlaneTable[ChosenTargetIndex()](x, g, count, offsets, sums);
}

}  // namespace bitpress::kernels
#endif
