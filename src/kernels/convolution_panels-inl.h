// The vector code of convolutions in parts whose weight lies in panels of 16 output channels:
// vectors hold outputs, and a value of the input multiplies all of them. Positions need not fill
// vectors, so that small planes and padded rows cost nothing. block_convolutions.cc alone includes
// it.
#if defined(BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#undef BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#else
#define BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
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
// The panels that are multiplied together: those of kChainVectors vectors, or one.
constexpr size_t kPanelGroup = kChainVectors > kParts ? kChainVectors / kParts : 1;
// The parts whose columns stay in the first-level cache while all positions multiply them.
constexpr size_t kPieceParts = 4;
// The floats of the sums of a panel.
constexpr size_t kPanelSums = kPanelPositions * kPanelColumns;

// Neighbouring positions that are summed together: their place behind the first position, and that
// of their sums.
struct PositionGroup {
  size_t at = 0, slot = 0, count = 0;
};

// The part of a weight that positions multiply: the columns of its vectors, and the ends of parts.
struct PanelPiece {
  const float* columns[kPanelGroup * kParts];
  const size_t* offsets;  // of the values of each element, from those of a position on
  size_t begin;
  std::span<const size_t> ends;
};

// Adds the products of element k of some positions, the values from `at` on. Columns come from the
// memory or a cache that is far, but for a few positions: those of the next piece are fetched.
template <size_t kPositions, size_t kVectors>
HWY_INLINE void AddElementOf(const float* at, const float* const (&columns)[kVectors], size_t k,
                             Chains<kPositions, kVectors>& chains) {
  VF values[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) {
    const float* const column = columns[v] + k * kPanelColumns;
    __builtin_prefetch(column + kPieceParts * formats::kPartElements * kPanelColumns,
                       /*for writing=*/0,
                       /*second level=*/2);
    values[v] = hn::Load(kDf, column);
  }
  HWY_UNROLL(8)
  for (size_t p = 0; p < kPositions; ++p) {
    const VF factor = hn::Set(kDf, at[p]);
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      chains[p][v] = FusedMulAdd(factor, values[v], chains[p][v]);
    }
  }
}

// Adds the parts of a piece to the sums of positions, whose vectors are sum_strides apart. It is
// not inlined, so that the registers are those of the chains.
template <size_t kPositions, size_t kVectors>
HWY_NOINLINE void AddParts(const PanelPiece& piece, size_t vector, const float* from, float* sums,
                           const size_t (&sum_strides)[kVectors]) {
  const float* columns[kVectors];
  for (size_t v = 0; v < kVectors; ++v) columns[v] = piece.columns[vector + v];
  const size_t* const offsets = piece.offsets;
  size_t k = piece.begin;
  for (const size_t end : piece.ends) {
    Chains<kPositions, kVectors> even, odd;
    ClearChains<kPositions, kVectors>(even);
    ClearChains<kPositions, kVectors>(odd);
    for (; k + 2 <= end; k += 2) {
      AddElementOf<kPositions, kVectors>(from + offsets[k], columns, k, even);
      AddElementOf<kPositions, kVectors>(from + offsets[k + 1], columns, k + 1, odd);
    }
    if (k < end) AddElementOf<kPositions, kVectors>(from + offsets[k], columns, k, even);
    k = end;
    HWY_UNROLL(8)
    for (size_t p = 0; p < kPositions; ++p) {
      HWY_UNROLL(8)
      for (size_t v = 0; v < kVectors; ++v) {
        float* const sum = sums + sum_strides[v] + p * kPanelColumns;
        hn::Store(hn::Add(hn::Load(kDf, sum), hn::Add(even[p][v], odd[p][v])), kDf, sum);
      }
    }
  }
}

template <size_t kPositions, size_t kVectors>
HWY_INLINE void AddGroup(const PanelPiece& piece, size_t vector, const float* from,
                         const PositionGroup& group, float* sums) {
  size_t strides[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t at = vector + v;
    strides[v] = at / kParts * kPanelSums + at % kParts * kLanes;
  }
  AddParts<kPositions, kVectors>(piece, vector, from + group.at, sums + group.slot * kPanelColumns,
                                 strides);
}

// Adds a piece to the sums of all groups, for kVectors vectors from `vector` on.
template <size_t kVectors>
void AddPiece(const PanelPiece& piece, size_t vector, const float* from,
              const std::vector<PositionGroup>& groups, float* sums) {
  for (const PositionGroup& group : groups) {
    switch (group.count) {
      case kChainPositions:
        AddGroup<kChainPositions, kVectors>(piece, vector, from, group, sums);
        break;
      case 4:
        AddGroup<4, kVectors>(piece, vector, from, group, sums);
        break;
      case 2:
        AddGroup<2, kVectors>(piece, vector, from, group, sums);
        break;
      default:
        AddGroup<1, kVectors>(piece, vector, from, group, sums);
    }
  }
}

// Sums groups for the `panels` panels from `output` on. `from` has the values of the first
// position.
HWY_INLINE void SumPanels(const ConvolutionTask& task, size_t output, size_t panels,
                          const float* from, const std::vector<PositionGroup>& groups,
                          float* sums) {
  const ConvolutionWeights& weights = *task.weights;
  const size_t vectors = panels * kParts;
  PanelPiece piece;
  for (size_t v = 0; v < vectors; ++v) {
    piece.columns[v] = weights.panel(output + v / kParts * kPanelColumns) + v % kParts * kLanes;
  }
  piece.offsets = task.offsets;
  piece.begin = 0;
  std::fill_n(sums, panels * kPanelSums, 0.0F);
  const std::span<const size_t> ends(weights.part_ends());
  for (size_t part = 0; part < ends.size(); part += kPieceParts) {
    piece.ends = ends.subspan(part, std::min(kPieceParts, ends.size() - part));
    size_t vector = 0;
    for (; vector + kChainVectors <= vectors; vector += kChainVectors) {
      AddPiece<kChainVectors>(piece, vector, from, groups, sums);
    }
    for (; vector < vectors; ++vector) {
      AddPiece<1>(piece, vector, from, groups, sums);
    }
    piece.begin = piece.ends.back();
  }
}

// Writes the outputs of runs of positions, whose sums lie one after another.
HWY_INLINE void FinishPanels(const ConvolutionTask& task, size_t output, size_t panels,
                             std::span<const PlaneGrid::Run> runs, const float* sums) {
  const auto outputs = static_cast<size_t>(task.weights->shape().outputs);
  for (size_t p = 0; p < panels; ++p) {
    FinishTask finish;
    finish.output = task.output;
    finish.first_output = output + p * kPanelColumns;
    finish.channels = std::min(kPanelColumns, outputs - finish.first_output);
    finish.plane = task.output_size;
    finish.sums = sums + p * kPanelSums;
    const size_t plane = PlaneOf(task, finish.first_output);
    for (const PlaneGrid::Run& run : runs) {
      finish.index = plane + run.index;
      finish.count = run.count;
      FinishPositions(finish);
      finish.sums += run.count * kPanelColumns;
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
  HWY_ALIGN float sums[kPanelGroup * kPanelSums];
  const std::vector<PlaneGrid::Run> all = LongRuns(*task.tile);
  for (size_t first = 0; first < all.size();) {
    size_t last = first, positions = 0;
    while (last < all.size() && positions + all[last].count <= kPanelPositions) {
      positions += all[last++].count;
    }
    const std::span<const PlaneGrid::Run> runs(all.data() + first, last - first);
    const std::vector<PositionGroup> groups = GroupsOf(runs);
    const float* const from = task.values(0, runs.front().position - task.tile->begin);
    for (size_t output = task.output_begin; output < task.output_end;) {
      const size_t left = (task.output_end - output + kPanelColumns - 1) / kPanelColumns;
      const size_t panels = std::min(kPanelGroup, left);
      SumPanels(task, output, panels, from, groups, sums);
      FinishPanels(task, output, panels, runs, sums);
      output += panels * kPanelColumns;
    }
    first = last;
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_CONVOLUTION_PANELS_INL_H_
