#include "kernels/depthwise_task.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise_task.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "kernels/fused_mul_add-inl.h"
#include "kernels/limited-inl.h"
#include "kernels/product_panels.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kPanelColumns> kDf;
using VF = hn::VFromD<decltype(kDf)>;
constexpr size_t kLanes = hn::MaxLanes(kDf);
constexpr size_t kParts = kPanelColumns / kLanes;  // vectors of a position

void Spread(const SpreadTask& task) {
  size_t row = 0, x = 0;
  for (size_t p = 0; p < task.count; p += kLanes) {
    const size_t count = std::min(kLanes, task.count - p);
    size_t row_of_part = row, x_of_part = x;
    for (size_t part = 0; part < kParts; ++part) {
      VF vectors[kLanes];
      for (size_t i = 0; i < kLanes; ++i) {
        const size_t channel = std::min(part * kLanes + i, task.channels - 1);
        vectors[i] = hn::LoadU(kDf, task.from + channel * task.stride + p);
      }
      Transpose(kDf, vectors);
      row_of_part = row;
      x_of_part = x;
      for (size_t i = 0; i < count; ++i) {
        if (x_of_part < task.used) {
          hn::StoreU(vectors[i], kDf,
                     task.rows[row_of_part] + x_of_part * kPanelColumns + part * kLanes);
        }
        if (++x_of_part == task.width) {
          x_of_part = 0;
          ++row_of_part;
        }
      }
    }
    row = row_of_part;
    x = x_of_part;
  }
}

void FinishSums(const FinishTask& task) {
  const ConvolutionOutput& end = *task.output;
  const SlopeAndLimits<VF> finished(kDf, end.slope, end.least, end.largest);
  for (size_t p = 0; p < task.count; p += kLanes) {
    const size_t count = std::min(kLanes, task.count - p);
    for (size_t part = 0; part * kLanes < task.channels; ++part) {
      VF vectors[kLanes];
      for (size_t i = 0; i < kLanes; ++i) {
        const size_t position = p + std::min(i, count - 1);
        vectors[i] = hn::Load(kDf, task.sums + position * task.pitch + part * kLanes);
      }
      Transpose(kDf, vectors);
      const size_t channels = std::min(kLanes, task.channels - part * kLanes);
      for (size_t i = 0; i < channels; ++i) {
        const size_t channel = part * kLanes + i;
        const size_t to = task.index + channel * task.plane + p;
        VF sum = hn::Add(vectors[i], hn::Set(kDf, end.bias[task.first_output + channel]));
        if (HWY_LIKELY(count == kLanes)) {
          if (end.other != nullptr) sum = hn::Add(sum, hn::LoadU(kDf, end.other + to));
          hn::StoreU(finished(sum), kDf, end.data + to);
          continue;
        }
#if HWY_TARGET <= HWY_AVX2
        const auto first = hn::FirstN(kDf, count);
        if (end.other != nullptr) sum = hn::Add(sum, hn::MaskedLoad(first, kDf, end.other + to));
        hn::BlendedStore(finished(sum), first, kDf, end.data + to);
#else
        HWY_ALIGN float buffer[kLanes] = {};
        if (end.other != nullptr) {
          std::memcpy(buffer, end.other + to, count * sizeof(float));
          sum = hn::Add(sum, hn::Load(kDf, buffer));
        }
        hn::Store(finished(sum), kDf, buffer);
        std::memcpy(end.data + to, buffer, count * sizeof(float));
#endif
      }
    }
  }
}

// Sums kWide neighbouring outputs of a row, from x on. A side of 0 is any kernel.
template <size_t kSide, size_t kStride, size_t kWide>
HWY_INLINE void SumOutputs(const DepthwiseRows& task, const float* const* rows, size_t x,
                           size_t part, float* to) {
  VF sums[kWide];
  HWY_UNROLL(8)
  for (size_t i = 0; i < kWide; ++i) sums[i] = hn::Zero(kDf);
  const float* tap = task.taps + part * kLanes;
  if constexpr (kSide > 0) {
    const size_t from = x * kStride * kPanelColumns + part * kLanes;
    for (size_t ky = 0; ky < kSide; ++ky) {
      constexpr size_t kColumns = (kWide - 1) * kStride + kSide;
      VF columns[kColumns];
      HWY_UNROLL(20)
      for (size_t c = 0; c < kColumns; ++c) {
        columns[c] = hn::Load(kDf, rows[ky] + from + c * kPanelColumns);
      }
      HWY_UNROLL(8)
      for (size_t kx = 0; kx < kSide; ++kx, tap += kPanelColumns) {
        const VF factor = hn::Load(kDf, tap);
        HWY_UNROLL(8)
        for (size_t i = 0; i < kWide; ++i) {
          sums[i] = FusedMulAdd(kDf, columns[i * kStride + kx], factor, sums[i]);
        }
      }
    }
  } else {
    for (size_t ky = 0; ky < task.kernel[0]; ++ky) {
      for (size_t kx = 0; kx < task.kernel[1]; ++kx, tap += kPanelColumns) {
        const VF factor = hn::Load(kDf, tap);
        const float* const from =
            rows[ky] + (x * task.stride + kx * task.dilation) * kPanelColumns + part * kLanes;
        HWY_UNROLL(8)
        for (size_t i = 0; i < kWide; ++i) {
          const VF column = hn::Load(kDf, from + i * task.stride * kPanelColumns);
          sums[i] = FusedMulAdd(kDf, column, factor, sums[i]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (size_t i = 0; i < kWide; ++i)
    hn::Store(sums[i], kDf, to + i * kPanelColumns + part * kLanes);
}

template <size_t kSide, size_t kStride, size_t kWide>
HWY_INLINE void SumParts(const DepthwiseRows& task, const float* const* rows, size_t x, float* to) {
  for (size_t part = 0; part < kParts; ++part) {
    SumOutputs<kSide, kStride, kWide>(task, rows, x, part, to + x * kPanelColumns);
  }
}

template <size_t kSide, size_t kStride>
void SumRowsOf(const DepthwiseRows& task) {
  const float* const* rows = task.rows;
  float* to = task.sums;
  for (size_t row = 0; row < task.num_rows; ++row) {
    size_t x = 0;
    // Many networks have rows of a multiple of seven outputs.
    for (; x + 7 <= task.width; x += 7) SumParts<kSide, kStride, 7>(task, rows, x, to);
    for (; x + 4 <= task.width; x += 4) SumParts<kSide, kStride, 4>(task, rows, x, to);
    for (; x + 2 <= task.width; x += 2) SumParts<kSide, kStride, 2>(task, rows, x, to);
    for (; x < task.width; ++x) SumParts<kSide, kStride, 1>(task, rows, x, to);
    rows += task.kernel[0];
    to += task.width * kPanelColumns;
  }
}

void SumRows(const DepthwiseRows& task) {
  const size_t side = task.kernel[0] == task.kernel[1] && task.dilation == 1 ? task.kernel[1] : 0;
  if (side == 3 && task.stride == 1) return SumRowsOf<3, 1>(task);
  if (side == 3 && task.stride == 2) return SumRowsOf<3, 2>(task);
  if (side == 5 && task.stride == 1) return SumRowsOf<5, 1>(task);
  if (side == 5 && task.stride == 2) return SumRowsOf<5, 2>(task);
  SumRowsOf<0, 0>(task);
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using SpreadKernel = void (*)(const SpreadTask&);
constexpr SpreadKernel kSpreadTable[] = BITPRESS_DISPATCH_TABLE(Spread);
using SumKernel = void (*)(const DepthwiseRows&);
constexpr SumKernel kSumTable[] = BITPRESS_DISPATCH_TABLE(SumRows);
using FinishKernel = void (*)(const FinishTask&);
constexpr FinishKernel kFinishTable[] = BITPRESS_DISPATCH_TABLE(FinishSums);

void SpreadPositions(const SpreadTask& task) { kSpreadTable[ChosenTargetIndex()](task); }
void SumDepthwise(const DepthwiseRows& task) { kSumTable[ChosenTargetIndex()](task); }
void FinishPositions(const FinishTask& task) { kFinishTable[ChosenTargetIndex()](task); }

}  // namespace bitpress::kernels
#endif
