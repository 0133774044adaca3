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

#include "kernels/chains-inl.h"
#include "kernels/convolution_end-inl.h"
#include "kernels/convolution_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// Adds the products of value k to chains.
template <size_t kOutputs, size_t kVectors>
HWY_INLINE void AddValue(const float* from, const float* const* factors, size_t k,
                         Chains<kOutputs, kVectors>& chains) {
  VF values[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) values[v] = hn::LoadU(kDf, from + v * kLanes);
  AddToChains<kOutputs, kVectors>(factors, k, values, chains);
}

// Adds the values [begin, end) to sums: a part, or with kIsChain all of them in one chain. It is
// not inlined, so that the registers are those of the chains.
template <bool kIsChain, size_t kOutputs, size_t kVectors>
HWY_NOINLINE void AddPart(const float* from, const size_t* offsets, const float* const* factors,
                          size_t begin, size_t end, VF* sums) {
  Chains<kOutputs, kVectors> even, odd;
  ClearChains<kOutputs, kVectors>(even);
  ClearChains<kOutputs, kVectors>(odd);
  size_t k = begin;
  for (; k + 2 <= end; k += 2) {
    AddValue<kOutputs, kVectors>(from + offsets[k], factors, k, even);
    AddValue<kOutputs, kVectors>(from + offsets[k + 1], factors, k + 1, kIsChain ? even : odd);
  }
  if (k < end) AddValue<kOutputs, kVectors>(from + offsets[k], factors, k, even);
  AddPartTo<kOutputs, kVectors>(even, odd, sums, kVectors);
}

// Sums vectors of positions, which begin at `from` in the plane of the group's first channel.
template <size_t kOutputs, size_t kVectors>
HWY_INLINE void SumFloats(const ConvolutionTask& task, size_t output, const float* from,
                          const Target& target) {
  const ConvolutionWeights& weights = *task.weights;
  const float* factors[kOutputs];
  VF sums[kOutputs][kVectors];
  for (size_t r = 0; r < kOutputs; ++r) {
    factors[r] = weights.values(output + r);
    for (size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(kDf);
  }
  if (weights.sums() == formats::ProductSums::kChain) {
    AddPart<true, kOutputs, kVectors>(from, task.offsets, factors, 0, weights.depth(), sums[0]);
  } else {
    size_t begin = 0;
    for (const size_t size : weights.part_sizes()) {
      AddPart<false, kOutputs, kVectors>(from, task.offsets, factors, begin, begin + size, sums[0]);
      begin += size;
    }
  }
  PutSums(task, output, sums, target);
}

// Sums a strip of a tile for output channels of one group.
template <size_t kOutputs>
void FloatStrip(const ConvolutionTask& task, size_t output, size_t at, size_t vectors,
                Target target) {
  const formats::ConvolutionShape& shape = task.weights->shape();
  const size_t group = output / static_cast<size_t>(shape.outputs_of_group());
  const size_t channel = group * static_cast<size_t>(shape.channels_of_group());
  const float* from = task.values(channel, at);
  for (; vectors >= kChainVectors; vectors -= kChainVectors, from += kChainVectors * kLanes) {
    SumFloats<kOutputs, kChainVectors>(task, output, from, target);
    target = target.Behind(kChainVectors);
  }
  if (vectors > 0) SumFloats<kOutputs, 1>(task, output, from, target);
}

// Sums and writes strips [begin, end) of a tile, whose runs are [run, last), for kOutputs output
// channels of one group.
template <size_t kOutputs>
void FloatStrips(const ConvolutionTask& task, size_t output, size_t begin, size_t end,
                 const PlaneGrid::Run* run, const PlaneGrid::Run* last) {
  const ConvolutionTile& tile = *task.tile;
  HWY_ALIGN float sums[kOutputs * kStripPositions + kLanes];
  for (size_t strip = begin; strip < end; strip += kStripPositions) {
    const PlaneGrid::Run* next = run;
    while (next != last && next->position < strip + kStripPositions) ++next;
    if (next == run) continue;
    const size_t vectors = (std::min(kStripPositions, tile.end - strip) + kLanes - 1) / kLanes;
    const bool is_one_run = next == run + 1 && run->position == strip;
    const Target target = is_one_run ? Target{run->index, run->count, nullptr} : Target{0, 0, sums};
    FloatStrip<kOutputs>(task, output, strip - tile.begin, vectors, target);
    if (!is_one_run) FinishStrip(task, output, kOutputs, strip, run, next, sums);
    run = next;
  }
}

// All output channels read some strips before the next ones, so that these stay in the first-level
// cache, and write long pieces of their planes if there are few channels to read.
void ConvolveFloats(const ConvolutionTask& task) {
  constexpr size_t kReadFloats = size_t{1} << 13;
  const ConvolutionTile& tile = *task.tile;
  const auto in_group = static_cast<size_t>(task.weights->shape().outputs_of_group());
  const auto channels = static_cast<size_t>(task.weights->shape().channels_of_group());
  const size_t strips = std::max<size_t>(1, kReadFloats / (channels * kStripPositions));
  const PlaneGrid::Run* run = tile.runs.data();
  const PlaneGrid::Run* const last = run + tile.runs.size();
  for (size_t begin = tile.begin; begin < tile.end; begin += strips * kStripPositions) {
    const size_t end = std::min(begin + strips * kStripPositions, tile.end);
    const PlaneGrid::Run* next = run;
    while (next != last && next->position < end) ++next;
    for (size_t output = task.output_begin; output < task.output_end;) {
      // Outputs of one group read the same values.
      const size_t left = std::min(task.output_end, (output / in_group + 1) * in_group) - output;
      const size_t count = left >= kChainRows ? kChainRows : left >= 2 ? 2 : 1;
      const auto sum_strips = count == kChainRows ? FloatStrips<kChainRows>
                              : count == 2        ? FloatStrips<2>
                                                  : FloatStrips<1>;
      sum_strips(task, output, begin, end, run, next);
      output += count;
    }
    run = next;
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_FLOATS_INL_H_
