// This is what follows the sums of a convolution in blocks, for its vector code.
#if defined(BITPRESS_KERNELS_CONVOLUTION_END_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_CONVOLUTION_END_INL_H_
#undef BITPRESS_KERNELS_CONVOLUTION_END_INL_H_
#else
#define BITPRESS_KERNELS_CONVOLUTION_END_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/convolution_task.h"
#include "kernels/limited-inl.h"
#include "kernels/product_codes-inl.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// Returns the index of the first output of a channel.
HWY_INLINE size_t PlaneOf(const ConvolutionTask& task, size_t output) {
  const auto outputs = static_cast<size_t>(task.weights->shape().outputs);
  return (task.tile->image * outputs + output) * task.output_size;
}

// Asks for the line of outputs that will be written soon: there are more planes than the processor
// follows by itself.
HWY_INLINE void FetchOutputs(const float* to) {
  __builtin_prefetch(to, /*for writing=*/1, /*first level=*/3);
}

// This turns the sums of one output channel into outputs.
struct Finish {
  HWY_INLINE Finish(const ConvolutionOutput& end, size_t output)
      : bias(hn::Set(kDf, end.bias[output])), finished(kDf, end.slope, end.least, end.largest) {}

  // Writes the first `count` outputs of a vector of sums. `other` is null or added.
  HWY_INLINE void Write(VF sum, const float* other, float* to, size_t count) const {
    sum = hn::Add(sum, bias);
    if (HWY_LIKELY(count >= kLanes)) {
      if (other != nullptr) sum = hn::Add(sum, hn::LoadU(kDf, other));
      return hn::StoreU(finished(sum), kDf, to);
    }
#if HWY_TARGET <= HWY_AVX2
    const auto first = hn::FirstN(kDf, count);
    if (other != nullptr) sum = hn::Add(sum, hn::MaskedLoad(first, kDf, other));
    hn::BlendedStore(finished(sum), first, kDf, to);
#else
    HWY_ALIGN float buffer[kLanes] = {};
    if (other != nullptr) {
      std::memcpy(buffer, other, count * sizeof(float));
      sum = hn::Add(sum, hn::Load(kDf, buffer));
    }
    hn::Store(finished(sum), kDf, buffer);
    std::memcpy(to, buffer, count * sizeof(float));
#endif
  }
  // Writes whole vectors of sums.
  template <size_t kVectors>
  HWY_INLINE void WriteAll(const VF (&sums)[kVectors], const float* other, float* to) const {
    for (size_t v = 0; v < kVectors; ++v) {
      VF sum = hn::Add(sums[v], bias);
      if (other != nullptr) sum = hn::Add(sum, hn::LoadU(kDf, other + v * kLanes));
      hn::StoreU(finished(sum), kDf, to + v * kLanes);
    }
  }

  VF bias;
  SlopeAndLimits<VF> finished;
};

// The sums of vectors of positions go here: to the outputs from `index` on of each plane, `count`
// of them, or to `sums`, a strip apart for each output channel.
struct Target {
  size_t index = 0, count = 0;
  float* sums = nullptr;

  HWY_INLINE Target Behind(size_t vectors) const {
    const size_t positions = vectors * kLanes;
    if (sums != nullptr) return {0, 0, sums + positions};
    return {index + positions, count > positions ? count - positions : 0, nullptr};
  }
};

template <size_t kOutputs, size_t kVectors>
HWY_INLINE void PutSums(const ConvolutionTask& task, size_t output,
                        const VF (&values)[kOutputs][kVectors], const Target& target) {
  if (target.sums != nullptr) {
    for (size_t r = 0; r < kOutputs; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        hn::StoreU(values[r][v], kDf, target.sums + r * kStripPositions + v * kLanes);
      }
    }
    return;
  }
  const ConvolutionOutput& end = *task.output;
  const bool is_all = target.count >= kVectors * kLanes;
  for (size_t r = 0; r < kOutputs; ++r) {
    const Finish finish(end, output + r);
    const size_t to = PlaneOf(task, output + r) + target.index;
    const float* const other = end.other != nullptr ? end.other + to : nullptr;
    if (HWY_LIKELY(is_all)) {
      for (size_t v = 0; v < kVectors; ++v) FetchOutputs(end.data + to + (kVectors + v) * kLanes);
      finish.WriteAll(values[r], other, end.data + to);
      continue;
    }
    for (size_t v = 0; v < kVectors && v * kLanes < target.count; ++v) {
      finish.Write(values[r][v], other != nullptr ? other + v * kLanes : nullptr,
                   end.data + to + v * kLanes, target.count - v * kLanes);
    }
  }
}

// Writes the outputs of a strip, the sums of `count` output channels from `output` on.
HWY_INLINE void FinishStrip(const ConvolutionTask& task, size_t output, size_t count, size_t strip,
                            const PlaneGrid::Run* run, const PlaneGrid::Run* runs_end,
                            const float* sums) {
  const ConvolutionOutput& end = *task.output;
  for (size_t r = 0; r < count; ++r) {
    const size_t plane = PlaneOf(task, output + r);
    const Finish finish(end, output + r);
    for (const PlaneGrid::Run* at = run; at != runs_end; ++at) {
      const float* const from = sums + r * kStripPositions + at->position - strip;
      for (size_t i = 0; i < at->count; i += kLanes) {
        const size_t to = plane + at->index + i;
        finish.Write(hn::LoadU(kDf, from + i), end.other != nullptr ? end.other + to : nullptr,
                     end.data + to, at->count - i);
      }
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_END_INL_H_
