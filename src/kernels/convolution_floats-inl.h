// The vector code of convolutions whose products are those of floats. block_convolutions.cc alone
// includes it.
#if defined(BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
#undef BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
#else
#define BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/convolution_end-inl.h"
#include "kernels/convolution_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// Writes kOutputs output channels for kVectors vectors of outputs, the products of floats. The
// channels of the outputs' group begin at `values`.
template <size_t kOutputs, size_t kVectors>
HWY_INLINE void FloatVectors(const ConvolutionTask& task, const float* values, size_t output,
                             const PlaneGrid::Run* vectors) {
  const ConvolutionWeights& weights = *task.weights;
  const float* from[kVectors];
  for (size_t v = 0; v < kVectors; ++v) from[v] = values + vectors[v].position - task.tile->begin;
  const float* factors[kOutputs];
  VF sum[kOutputs][kVectors];
  for (size_t r = 0; r < kOutputs; ++r) {
    factors[r] = weights.values(output + r);
    for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kDf);
  }
  for (size_t k = 0; k < weights.depth(); ++k) {
    const size_t offset = task.offsets[k];
    VF columns[kVectors];
    for (size_t v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(kDf, from[v] + offset);
    for (size_t r = 0; r < kOutputs; ++r) {
      const VF factor = hn::Set(kDf, factors[r][k]);
      for (size_t v = 0; v < kVectors; ++v) {
        sum[r][v] = FusedMulAdd(columns[v], factor, sum[r][v]);
      }
    }
  }
  const ConvolutionOutput& end = *task.output;
  for (size_t r = 0; r < kOutputs; ++r) {
    const size_t plane = PlaneOf(task, output + r);
    const Finish finish(end, output + r);
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t to = plane + vectors[v].index;
      finish.Write(sum[r][v], end.other != nullptr ? end.other + to : nullptr, end.data + to,
                   vectors[v].count);
    }
  }
}

// Writes a vector of outputs of each of kRows neighbouring rows, of one channel and a square kernel
// without strides. What is loaded serves all rows that reach it.
template <size_t kSide, size_t kRows>
HWY_INLINE void RowVectors(const ConvolutionTask& task, const float* values,
                           const VF (&factors)[kSide * kSide], const PlaneGrid::Run* rows, size_t x,
                           const Finish& finish, size_t plane) {
  const float* const from = values + rows[0].position - task.tile->begin + x;
  const size_t pitch = rows[1].position - rows[0].position;
  VF sums[kRows];
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) sums[r] = hn::Zero(kDf);
  HWY_UNROLL(16)
  for (size_t i = 0; i < kSide + kRows - 1; ++i) {
    HWY_UNROLL(8)
    for (size_t k = 0; k < kSide; ++k) {
      const VF column = hn::LoadU(kDf, from + i * pitch + k);
      HWY_UNROLL(8)
      for (size_t r = 0; r < kRows; ++r) {
        if (i < r || i - r >= kSide) continue;
        sums[r] = FusedMulAdd(column, factors[(i - r) * kSide + k], sums[r]);
      }
    }
  }
  const ConvolutionOutput& end = *task.output;
  for (size_t r = 0; r < kRows; ++r) {
    const size_t to = plane + rows[r].index + x;
    finish.Write(sums[r], end.other != nullptr ? end.other + to : nullptr, end.data + to,
                 rows[r].count - x);
  }
}

// Does so for as many rows as it can. Returns their number.
template <size_t kSide>
size_t ConvolveRows(const ConvolutionTask& task, const float* values, size_t output) {
  VF factors[kSide * kSide];
  for (size_t k = 0; k < kSide * kSide; ++k) {
    factors[k] = hn::Set(kDf, task.weights->values(output)[k]);
  }
  const Finish finish(*task.output, output);
  const size_t plane = PlaneOf(task, output);
  const std::vector<PlaneGrid::Run>& rows = task.tile->runs;
  size_t row = 0;
  const auto convolve = [&]<size_t kRows>() HWY_ATTR {
    for (; row + kRows <= rows.size(); row += kRows) {
      for (size_t x = 0; x < rows[row].count; x += kLanes) {
        RowVectors<kSide, kRows>(task, values, factors, &rows[row], x, finish, plane);
      }
    }
  };
  convolve.template operator()<7>();  // many networks have multiples of seven rows
  convolve.template operator()<3>();
  return row;
}

// Returns the side of a square kernel without strides over one channel, or 0.
inline size_t SideOf(const formats::ConvolutionShape& shape) {
  constexpr std::array<int64_t, 2> kOnes{1, 1};
  const bool is_plain = shape.channels_of_group() == 1 && shape.strides == kOnes &&
                        shape.dilations == kOnes && shape.kernel[0] == shape.kernel[1];
  return is_plain ? static_cast<size_t>(shape.kernel[0]) : 0;
}

// Writes kOutputs output channels. `side` is that of a kernel that ConvolveRows takes, or another.
template <size_t kOutputs>
void FloatOutputs(const ConvolutionTask& task, size_t output, size_t side,
                  const std::vector<PlaneGrid::Run>& vectors) {
  const formats::ConvolutionShape& shape = task.weights->shape();
  const size_t group = output / static_cast<size_t>(shape.outputs_of_group());
  const size_t channel = group * static_cast<size_t>(shape.channels_of_group());
  const float* const values =
      task.tile->values + (channel - task.first_channel) * task.channel_floats;
  size_t done = 0;  // rows
  if constexpr (kOutputs == 1) {
    if (side == 3) done = ConvolveRows<3>(task, values, output);
    if (side == 5) done = ConvolveRows<5>(task, values, output);
  }
  // Enough sums to hide the latency of their multiply-adds.
  constexpr size_t kVectors = kOutputs == 1 ? 8 : 4;
  const std::vector<PlaneGrid::Run>& rows = task.tile->runs;
  const size_t first = done < rows.size() ? rows[done].position : task.tile->end;
  size_t v = 0;
  while (v < vectors.size() && vectors[v].position < first) ++v;
  for (; v + kVectors <= vectors.size(); v += kVectors) {
    FloatVectors<kOutputs, kVectors>(task, values, output, &vectors[v]);
  }
  if constexpr (kVectors > 2) {
    for (; v + 2 <= vectors.size(); v += 2) {
      FloatVectors<kOutputs, 2>(task, values, output, &vectors[v]);
    }
  }
  for (; v < vectors.size(); ++v) FloatVectors<kOutputs, 1>(task, values, output, &vectors[v]);
}

void ConvolveFloats(const ConvolutionTask& task) {
  std::vector<PlaneGrid::Run> vectors;
  for (const PlaneGrid::Run& run : task.tile->runs) {
    for (size_t i = 0; i < run.count; i += kLanes) {
      vectors.push_back({run.position + i, run.index + i, std::min(kLanes, run.count - i)});
    }
  }
  const auto in_group = static_cast<size_t>(task.weights->shape().outputs_of_group());
  constexpr size_t kFloatOutputs = kParts == 1 ? 4 : 2;
  const size_t side = SideOf(task.weights->shape());
  for (size_t output = task.output_begin; output < task.output_end;) {
    // Outputs of one group read the same values.
    const size_t left = std::min(task.output_end, (output / in_group + 1) * in_group) - output;
    if (left >= kFloatOutputs) {
      FloatOutputs<kFloatOutputs>(task, output, 0, vectors);
      output += kFloatOutputs;
    } else {
      FloatOutputs<1>(task, output, side, vectors);
      output += 1;
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
