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

// Writes kOutputs output channels of one group.
template <size_t kOutputs>
void FloatOutputs(const ConvolutionTask& task, size_t output,
                  const std::vector<PlaneGrid::Run>& vectors) {
  const formats::ConvolutionShape& shape = task.weights->shape();
  const size_t group = output / static_cast<size_t>(shape.outputs_of_group());
  const size_t channel = group * static_cast<size_t>(shape.channels_of_group());
  const float* const values =
      task.tile->values + (channel - task.first_channel) * task.channel_floats;
  // Enough sums to hide the latency of their multiply-adds.
  constexpr size_t kVectors = kOutputs == 1 ? 8 : 4;
  size_t v = 0;
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
  constexpr size_t kFloatOutputs = kParts == 1 || kIsArm ? 4 : 2;
  for (size_t output = task.output_begin; output < task.output_end;) {
    // Outputs of one group read the same values.
    const size_t left = std::min(task.output_end, (output / in_group + 1) * in_group) - output;
    if (left >= kFloatOutputs) {
      FloatOutputs<kFloatOutputs>(task, output, vectors);
      output += kFloatOutputs;
    } else {
      FloatOutputs<1>(task, output, vectors);
      output += 1;
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
