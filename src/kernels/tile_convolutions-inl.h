// The code of convolutions in blocks with tiles, or with pairs in their place. For
// block_convolutions_tiles.cc and block_convolutions_pairs.cc, which alone include it.
#if defined(BITPRESS_KERNELS_TILE_CONVOLUTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_TILE_CONVOLUTIONS_INL_H_
#undef BITPRESS_KERNELS_TILE_CONVOLUTIONS_INL_H_
#else
#define BITPRESS_KERNELS_TILE_CONVOLUTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/convolution_end-inl.h"
#include "kernels/convolution_task.h"
#include "kernels/pair_sums-inl.h"
#include "kernels/tile_sums-inl.h"

// Targets without tiles only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_IN_TILES
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The blocks of kTileRows output channels, and those of a tile of positions: one position of the
// kernel after another.
struct ConvolutionOperands {
  static constexpr size_t kTerms = 1;
  const ConvolutionTask* task;
  const uint16_t* weights;
  size_t at;     // the first of the positions in the tile
  size_t count;  // of outputs

  HWY_INLINE size_t num_rows() const { return count; }
  HWY_INLINE size_t depth() const { return task->weights->tile_depth(); }
  // The elements of a block that its columns have.
  HWY_INLINE size_t depth_of(size_t block) const { return 2 * (*task->blocks)[block].pieces; }
  HWY_INLINE const uint16_t* rows(size_t block) const {
    return weights + block * kTileRows * depth();
  }
  HWY_INLINE const uint16_t* columns(size_t block, size_t panel) const {
    const size_t position = at + panel * kPanelColumns;
    return reinterpret_cast<const uint16_t*>(task->tile->codes + (*task->blocks)[block].codes +
                                             4 * position);
  }
  HWY_INLINE size_t column_stride() const { return 4 * task->tile->stored; }
};

template <size_t kPanels>
HWY_INLINE void SumTileBlocks(const ConvolutionOperands& operands, size_t count, float* sums) {
  if (operands.task->weights->sums() == formats::ProductSums::kWhole) {
    return AddTileBlocks<kPanels>(operands, count, /*is_first=*/true, sums);
  }
  AddFloatTileBlocks<kPanels>(operands, count, /*is_first=*/true, sums);
}

// Writes the sums of `count` output channels for kPanels vectors of positions, which begin at
// `position` of the strip: to the outputs of a run, or where FinishStrip finds them.
template <size_t kPanels>
HWY_INLINE void PutSums(const ConvolutionTask& task, size_t output, size_t count, size_t position,
                        const PlaneGrid::Run* run, const float* sums, float* strip) {
  if (run == nullptr) {
    for (size_t r = 0; r < count; ++r) {
      for (size_t p = 0; p < kPanels; ++p) {
        const VF sum = hn::Load(kDf, sums + (p * kTileRows + r) * kPanelColumns);
        hn::StoreU(sum, kDf, strip + r * kStripPositions + position + p * kPanelColumns);
      }
    }
    return;
  }
  Finish finish(*task.output, output);
  size_t first = PlaneOf(task, output) + run->index + position;
  for (size_t r = 0; r < count; ++r, first += task.output_size) {
    finish.bias = hn::Set(kDf, task.output->bias[output + r]);
    for (size_t p = 0; p < kPanels && position + p * kPanelColumns < run->count; ++p) {
      const VF sum = hn::Load(kDf, sums + (p * kTileRows + r) * kPanelColumns);
      const size_t to = first + p * kPanelColumns;
      const float* const other = task.output->other;
      FetchOutputs(task.output->data + to + kPanels * kPanelColumns);
      finish.Write(sum, other != nullptr ? other + to : nullptr, task.output->data + to,
                   run->count - position - p * kPanelColumns);
    }
  }
}

// Sums and writes all strips of a tile for up to kTileRows output channels.
HWY_INLINE void TileOutputs(const ConvolutionTask& task, size_t output, size_t count) {
  const ConvolutionTile& tile = *task.tile;
  const size_t num_blocks = task.blocks->size();
  alignas(64) float sums[2 * kTileRows * kPanelColumns];
  alignas(64) float strip_sums[kTileRows * kStripPositions + kPanelColumns];
  const PlaneGrid::Run* run = tile.runs.data();
  const PlaneGrid::Run* const last = run + tile.runs.size();
  for (size_t strip = tile.begin; strip < tile.end; strip += kStripPositions) {
    const PlaneGrid::Run* next = run;
    while (next != last && next->position < strip + kStripPositions) ++next;
    const bool is_one_run = next == run + 1 && run->position == strip;
    const size_t end = next == run ? strip : std::min(strip + kStripPositions, tile.end);
    for (size_t at = strip; at < end; at += 2 * kPanelColumns) {
      const ConvolutionOperands operands{&task, task.weights->tiles(output), at - tile.begin,
                                         count};
      const PlaneGrid::Run* const whole = is_one_run ? run : nullptr;
      if (end - at > kPanelColumns) {
        SumTileBlocks<2>(operands, num_blocks, sums);
        PutSums<2>(task, output, count, at - strip, whole, sums, strip_sums);
      } else {
        SumTileBlocks<1>(operands, num_blocks, sums);
        PutSums<1>(task, output, count, at - strip, whole, sums, strip_sums);
      }
    }
    if (!is_one_run) FinishStrip(task, output, count, strip, run, next, strip_sums);
    run = next;
  }
}

void Convolve(const ConvolutionTask& task) {
  const TileScope scope(std::min(task.weights->tile_depth(), kTileDepth));
  for (size_t output = task.output_begin; output < task.output_end; output += kTileRows) {
    TileOutputs(task, output, std::min(kTileRows, task.output_end - output));
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_IN_TILES

#endif  // BITPRESS_KERNELS_TILE_CONVOLUTIONS_INL_H_
