// The vector code of convolutions in parts whose weight lies in panels of output channels: vectors
// hold outputs, and a value of the input multiplies all of them. Positions need not fill vectors,
// so that small planes and padded rows cost nothing. block_convolutions.cc alone includes it.
#if defined(BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#undef BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#else
#define BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/chains-inl.h"
#include "kernels/convolution_task.h"
#include "kernels/depthwise_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The positions whose two chains with kChainVectors vectors have room in the registers. Many
// networks have rows of a multiple of seven outputs.
constexpr size_t kChainPositions = kParts == 1 ? 7 : kChainRows;
// The parts whose columns stay in the first-level cache while all positions multiply them.
constexpr size_t kPieceParts = 4;
constexpr size_t kPieceElements = kPieceParts * formats::kPartElements;

// Neighbouring positions that are summed together: their place behind the first position, and that
// of their sums.
struct PositionGroup {
  size_t at = 0, slot = 0, count = 0;
};

// Some parts of a panel, with what multiplies them.
struct PanelPiece {
  const float* columns;  // the panel's width for each element
  size_t width;
  std::span<const size_t> sizes;  // of the parts
  const size_t* offsets;          // of each element's values, from those of a position on
  const uint16_t* next;           // the panel's elements behind these
};

// Adds the products of an element of some positions, whose values are from `at` on.
template <size_t kPositions, size_t kVectors>
HWY_INLINE void AddElementOf(const float* at, const float* column,
                             Chains<kPositions, kVectors>& chains) {
  VF values[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) values[v] = hn::Load(kDf, column + v * kLanes);
  HWY_UNROLL(8)
  for (size_t p = 0; p < kPositions; ++p) {
    const VF factor = hn::Set(kDf, at[p]);
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      chains[p][v] = FusedMulAdd(factor, values[v], chains[p][v]);
    }
  }
}

// Adds a piece to the sums of positions, of which each has the panel's width: for kVectors vectors
// from `vector` on. It is not inlined, so that the registers are those of the chains. Panels come
// from far caches, so that what follows is fetched on the way: a line for each two elements.
template <size_t kPositions, size_t kVectors>
HWY_NOINLINE void AddParts(const PanelPiece& piece, size_t vector, const uint16_t* ahead,
                           const float* from, float* sums) {
  constexpr size_t kLine = 32;
  const size_t width = piece.width;
  const float* column = piece.columns + vector * kLanes;
  const size_t* offset = piece.offsets;
  for (const size_t size : piece.sizes) {
    Chains<kPositions, kVectors> even, odd;
    ClearChains<kPositions, kVectors>(even);
    ClearChains<kPositions, kVectors>(odd);
    for (const size_t* const pairs_end = offset + size / 2 * 2; offset != pairs_end; offset += 2) {
      __builtin_prefetch(ahead, /*for writing=*/0, /*second level=*/2);
      ahead += kLine;
      AddElementOf<kPositions, kVectors>(from + offset[0], column, even);
      AddElementOf<kPositions, kVectors>(from + offset[1], column + width, odd);
      column += 2 * width;
    }
    if (size % 2 != 0) {
      AddElementOf<kPositions, kVectors>(from + *offset++, column, even);
      column += width;
    }
    float* sum = sums + vector * kLanes;
    HWY_UNROLL(8)
    for (size_t p = 0; p < kPositions; ++p, sum += width) {
      HWY_UNROLL(8)
      for (size_t v = 0; v < kVectors; ++v) {
        const VF before = hn::Load(kDf, sum + v * kLanes);
        hn::Store(hn::Add(before, hn::Add(even[p][v], odd[p][v])), kDf, sum + v * kLanes);
      }
    }
  }
}

// Does so for all groups of positions.
template <size_t kVectors>
void AddPiece(const PanelPiece& piece, size_t vector, const float* from,
              const std::vector<PositionGroup>& groups, float* sums) {
  const uint16_t* ahead = piece.next;
  for (const PositionGroup& group : groups) {
    const auto add = group.count == kChainPositions ? AddParts<kChainPositions, kVectors>
                     : group.count == 4             ? AddParts<4, kVectors>
                     : group.count == 2             ? AddParts<2, kVectors>
                                                    : AddParts<1, kVectors>;
    add(piece, vector, ahead, from + group.at, sums + group.slot * piece.width);
    // Two groups fetch all of the next piece.
    ahead = piece.next + kPieceElements / 2 * kWidePanel;
  }
}

// Writes bfloat16 as floats.
HWY_INLINE void WidenColumns(const uint16_t* from, size_t count, float* to) {
  constexpr hn::RebindToUnsigned<decltype(kDf)> kDu;
  constexpr hn::Rebind<uint16_t, decltype(kDf)> kHalves;
  for (size_t i = 0; i < count; i += kLanes) {
    const auto bits = hn::PromoteTo(kDu, hn::Load(kHalves, from + i));
    hn::Store(hn::BitCast(kDf, hn::ShiftLeft<16>(bits)), kDf, to + i);
  }
}

// Sums groups for the panel of `output`. `from` has the values of the first position.
void SumPanel(const ConvolutionTask& task, size_t output, const float* from,
              const std::vector<PositionGroup>& groups, float* sums) {
  HWY_ALIGN float columns[kPieceElements * kWidePanel];
  const ConvolutionWeights& weights = *task.weights;
  const size_t width = weights.panel_width(output);
  const uint16_t* panel = weights.panel(output);
  std::fill_n(sums, kPanelPositions * width, 0.0F);
  const std::span<const size_t> sizes(weights.part_sizes());
  const size_t* offsets = task.offsets;
  for (size_t part = 0; part < sizes.size(); part += kPieceParts) {
    const std::span<const size_t> of_piece =
        sizes.subspan(part, std::min(kPieceParts, sizes.size() - part));
    const size_t elements = std::accumulate(of_piece.begin(), of_piece.end(), size_t{0});
    WidenColumns(panel, elements * width, columns);
    panel += elements * width;
    const PanelPiece piece{columns, width, of_piece, offsets, panel};
    offsets += elements;
    const size_t vectors = width / kLanes;
    size_t vector = 0;
    for (; vector + kChainVectors <= vectors; vector += kChainVectors) {
      AddPiece<kChainVectors>(piece, vector, from, groups, sums);
    }
    for (; vector < vectors; ++vector) AddPiece<1>(piece, vector, from, groups, sums);
  }
}

// Calls function(FinishTask) for the outputs of runs of positions, whose sums lie one after
// another.
template <class Function>
HWY_INLINE void ForEachOutput(const ConvolutionTask& task, size_t output,
                              std::span<const PlaneGrid::Run> runs, const float* sums,
                              const Function& function) {
  const auto outputs = static_cast<size_t>(task.weights->shape().outputs);
  const size_t width = task.weights->panel_width(output);
  for (size_t column = 0; column < width; column += kPanelColumns) {
    FinishTask finish;
    finish.output = task.output;
    finish.first_output = output + column;
    finish.channels = std::min(kPanelColumns, outputs - finish.first_output);
    finish.plane = task.output_size;
    finish.sums = sums + column;
    finish.pitch = width;
    const size_t plane = PlaneOf(task, finish.first_output);
    for (const PlaneGrid::Run& run : runs) {
      finish.index = plane + run.index;
      finish.count = run.count;
      function(finish);
      finish.sums += run.count * width;
    }
  }
}

// Returns the runs of a tile, neighbouring ones as one, and none longer than kPanelPositions.
inline std::vector<PlaneGrid::Run> LongRuns(const ConvolutionTile& tile) {
  std::vector<PlaneGrid::Run> runs;
  for (PlaneGrid::Run run : tile.runs) {
    while (run.count > 0) {
      const bool is_next = !runs.empty() && runs.back().count < kPanelPositions &&
                           runs.back().position + runs.back().count == run.position;
      if (!is_next) runs.push_back({run.position, run.index, 0});
      const size_t count = std::min(run.count, kPanelPositions - runs.back().count);
      runs.back().count += count;
      run = {run.position + count, run.index + count, run.count - count};
    }
  }
  return runs;
}

// Cuts runs into groups, behind each other in the sums.
inline std::vector<PositionGroup> GroupsOf(std::span<const PlaneGrid::Run> runs) {
  std::vector<PositionGroup> groups;
  size_t slot = 0;
  for (const PlaneGrid::Run& run : runs) {
    for (size_t i = 0; i < run.count;) {
      const size_t left = run.count - i;
      const size_t count = left >= kChainPositions            ? kChainPositions
                           : left >= 4 && kChainPositions > 4 ? 4
                           : left >= 2                        ? 2
                                                              : 1;
      groups.push_back({run.position + i - runs.front().position, slot, count});
      i += count;
      slot += count;
    }
  }
  return groups;
}

void ConvolvePanels(const ConvolutionTask& task) {
  HWY_ALIGN float sums[kPanelPositions * kWidePanel];
  const std::vector<PlaneGrid::Run> all = LongRuns(*task.tile);
  for (size_t first = 0; first < all.size();) {
    size_t last = first, positions = 0;
    while (last < all.size() && positions + all[last].count <= kPanelPositions) {
      positions += all[last++].count;
    }
    const std::span<const PlaneGrid::Run> runs(all.data() + first, last - first);
    const std::vector<PositionGroup> groups = GroupsOf(runs);
    const float* const from = task.values(0, runs.front().position - task.tile->begin);
    for (size_t output = task.output_begin; output < task.output_end; output += kWidePanel) {
      ForEachOutput(task, output, runs, sums, PrefetchOutputs);
      SumPanel(task, output, from, groups, sums);
      ForEachOutput(task, output, runs, sums, FinishPositions);
    }
    first = last;
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
