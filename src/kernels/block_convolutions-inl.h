// The vector code of convolutions in blocks. It is compiled once a target, and for targets with dot
// products of bytes once more, as that of products (block_products-inl.h).
#if defined(BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#undef BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#else
#define BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/convolution_end-inl.h"
#include "kernels/convolution_task.h"
#include "kernels/product_codes-inl.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The output channels and vectors of positions of a tile of sums. With AVX-512 the registers have
// room for the sums of a block and, if there are several, for those of the blocks before it. Arm
// has 32 registers; without dot products it gathers integers in two for each of sums.
constexpr bool kIsWide = kParts == 1 || (kIsArm && kHasDot);
constexpr size_t SumOutputs(bool are_bytes) {
  // With AVX2 bytes are gathered in registers of their own, and words are not.
  return kParts == 1 || (kParts == 2 && !are_bytes) ? 6 : 4;
}
constexpr size_t kOneBlock = 1000;  // in place of the pieces of a block
constexpr size_t SumVectors(size_t pieces) {
  return kIsWide && (kIsArm || pieces == kOneBlock) ? 4 : 2;
}
// Returns the pieces of a block that has code of its own, 0 where none has.
constexpr size_t UsualPieces(size_t pieces) { return kHasUsualBlocks ? pieces : 0; }

// Adds the products of `count` pieces of a block: of vectors of columns from `codes` on with those
// of output channels, which lie next to each other.
template <bool kIsBytes, size_t kOutputs, size_t kVectors>
HWY_INLINE void AddPieces(const uint8_t* codes, size_t code_stride, const int32_t* pieces,
                          size_t count, VI (&block)[kOutputs][kVectors]) {
  std::conditional_t<kIsBytes, ByteSums<kOutputs, kVectors>, WordSums<kOutputs, kVectors>> words;
  HWY_UNROLL(kUnrolled)
  for (size_t p = 0; p < count; ++p) {
    V8 columns[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      columns[v] = hn::LoadU(kD8, codes + p * code_stride + v * kVectorBytes);
    }
    for (size_t r = 0; r < kOutputs; ++r) {
      const VI factor = hn::Set(kDi, pieces[p * kOutputGroup + r]);
      for (size_t v = 0; v < kVectors; ++v) {
        if constexpr (kIsBytes) {
          block[r][v] = words.Add(r, v, columns[v], hn::BitCast(kD8i, factor), block[r][v]);
        } else {
          block[r][v] = words.Add(r, v, hn::BitCast(kD16, columns[v]), hn::BitCast(kD16, factor),
                                  block[r][v]);
        }
      }
    }
  }
  words.Finish(block);
}

// Sums output channels for positions [at, at + lanes * kVectors) of a tile. kPieces is the usual
// number of pieces of a block, 0 if that is no constant, and kOneBlock if there is one block.
template <bool kIsBytes, size_t kPieces, size_t kOutputs, size_t kVectors>
HWY_INLINE void SumWhole(const ConvolutionTask& task, size_t output, size_t at,
                         const Target& target) {
  const ConvolutionWeights& weights = *task.weights;
  const ConvolutionTile& tile = *task.tile;
  const size_t code_stride = 4 * tile.stored;
  const int32_t* pieces = weights.pieces(output);
  const int32_t* starts = weights.starts(output);
  const float* units = weights.units(output);
  VF values[kOutputs][kVectors];
  const BlockColumns* const first = task.blocks->data();
  const BlockColumns* const last = kPieces == kOneBlock ? first + 1 : first + task.blocks->size();
  if constexpr (kPieces != kOneBlock) {
    for (size_t r = 0; r < kOutputs; ++r) {
      for (size_t v = 0; v < kVectors; ++v) values[r][v] = hn::Zero(kDf);
    }
  }
  for (const BlockColumns* columns = first; columns != last; ++columns) {
    VI block[kOutputs][kVectors];
    for (size_t r = 0; r < kOutputs; ++r) {
      for (size_t v = 0; v < kVectors; ++v) block[r][v] = hn::Set(kDi, starts[r]);
    }
    const uint8_t* const codes = tile.codes + columns->codes + 4 * at;
    const size_t count = columns->pieces;
    if (kPieces > 0 && count == kPieces &&
        (BITPRESS_PRODUCTS_WITH_DOT || !kIsBytes || kPieces <= weights.pieces_in_words())) {
      AddPieces<kIsBytes, kOutputs, kVectors>(codes, code_stride, pieces, kPieces, block);
    } else {
      const size_t step =
          BITPRESS_PRODUCTS_WITH_DOT || !kIsBytes ? count : weights.pieces_in_words();
      for (size_t p = 0; p < count; p += step) {
        AddPieces<kIsBytes, kOutputs, kVectors>(codes + p * code_stride, code_stride,
                                                pieces + p * kOutputGroup,
                                                std::min(step, count - p), block);
      }
    }
    pieces += count * kOutputGroup;
    const uint8_t* const column_units = tile.units + columns->units + at;
    for (size_t v = 0; v < kVectors; ++v) {
      const auto exponents =
          hn::PromoteTo(kDi, hn::LoadU(kBytesOfLanes, column_units + v * kLanes));
      const WholeSums times_unit(hn::BitCast(kDf, hn::ShiftLeft<23>(exponents)));
      for (size_t r = 0; r < kOutputs; ++r) {
        const VF scaled = times_unit(block[r][v]);
        const VF unit = hn::Set(kDf, units[r]);
        values[r][v] =
            kPieces == kOneBlock ? hn::Mul(scaled, unit) : FusedMulAdd(scaled, unit, values[r][v]);
      }
    }
    starts += kOutputGroup;
    units += kOutputGroup;
  }
  PutSums(task, output, values, target);
}

// Sums as many positions as whole groups of kVectors vectors take, and moves behind them. It is no
// lambda, because Clang gives lambdas no instruction sets of a pragma.
template <bool kIsBytes, size_t kPieces, size_t kOutputs, size_t kVectors>
HWY_INLINE void SumGroups(const ConvolutionTask& task, size_t output, size_t& at, size_t& vectors,
                          Target& target) {
  for (; vectors >= kVectors; vectors -= kVectors) {
    SumWhole<kIsBytes, kPieces, kOutputs, kVectors>(task, output, at, target);
    at += kVectors * kLanes;
    target = target.Behind(kVectors);
  }
}

// Sums a strip, whose first position is `at` in the tile.
template <bool kIsBytes, size_t kPieces, size_t kOutputs>
HWY_INLINE void SumStrip(const ConvolutionTask& task, size_t output, size_t at, size_t vectors,
                         Target target) {
  constexpr size_t kVectors = SumVectors(kPieces);
  SumGroups<kIsBytes, kPieces, kOutputs, kVectors>(task, output, at, vectors, target);
  if constexpr (kVectors > 2) {
    SumGroups<kIsBytes, kPieces, kOutputs, 2>(task, output, at, vectors, target);
  }
  SumGroups<kIsBytes, kPieces, kOutputs, 1>(task, output, at, vectors, target);
}

// Sums and writes all strips of a tile for kOutputs output channels.
template <bool kIsBytes, size_t kPieces, size_t kOutputs>
void WholeOutputs(const ConvolutionTask& task, size_t output) {
  const ConvolutionTile& tile = *task.tile;
  HWY_ALIGN float sums[kOutputs * kStripPositions + kLanes];
  const PlaneGrid::Run* run = tile.runs.data();
  const PlaneGrid::Run* const last = run + tile.runs.size();
  for (size_t strip = tile.begin; strip < tile.end; strip += kStripPositions) {
    const PlaneGrid::Run* next = run;
    while (next != last && next->position < strip + kStripPositions) ++next;
    const size_t vectors = (std::min(kStripPositions, tile.end - strip) + kLanes - 1) / kLanes;
    if (next == run + 1 && run->position == strip) {
      SumStrip<kIsBytes, kPieces, kOutputs>(task, output, strip - tile.begin, vectors,
                                            {run->index, run->count, nullptr});
    } else if (next != run) {
      SumStrip<kIsBytes, kPieces, kOutputs>(task, output, strip - tile.begin, vectors,
                                            {0, 0, sums});
      FinishStrip(task, output, kOutputs, strip, run, next, sums);
    }
    run = next;
  }
}

template <bool kIsBytes, size_t kPieces>
void WholeTask(const ConvolutionTask& task) {
  constexpr size_t kOutputs = SumOutputs(kIsBytes);
  size_t output = task.output_begin;
  for (; output + kOutputs <= task.output_end; output += kOutputs) {
    WholeOutputs<kIsBytes, kPieces, kOutputs>(task, output);
  }
  if constexpr (kOutputs > 4) {
    for (; output + 4 <= task.output_end; output += 4) {
      WholeOutputs<kIsBytes, kPieces, 4>(task, output);
    }
  }
  constexpr size_t kFew = kPieces == kOneBlock ? kOneBlock : 0;
  for (; output + 2 <= task.output_end; output += 2) WholeOutputs<kIsBytes, kFew, 2>(task, output);
  if (output < task.output_end) WholeOutputs<kIsBytes, kFew, 1>(task, output);
}

void ConvolveWhole(const ConvolutionTask& task) {
  if (task.weights->form() == ColumnForm::kWords) {
    if constexpr (!kHasDot || !kIsArm) {  // Arm has no dot products of words
      const bool is_usual = kHasDot && task.weights->pieces_per_block() == 8;
      is_usual ? WholeTask<false, UsualPieces(8)>(task) : WholeTask<false, 0>(task);
    }
    return;
  }
  if (task.blocks->size() == 1) return WholeTask<true, kOneBlock>(task);
  switch (task.weights->pieces_per_block()) {
    case 8:
      return WholeTask<true, UsualPieces(8)>(task);
    case 4:
      return WholeTask<true, UsualPieces(4)>(task);
    case 2:
      return WholeTask<true, UsualPieces(2)>(task);
    default:
      return WholeTask<true, 0>(task);
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
