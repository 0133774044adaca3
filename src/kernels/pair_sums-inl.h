// The sums of 16 rows and one or two panels of 16 columns over blocks, by dot products of pairs of
// bfloat16. For the vector code of products and convolutions.
//
// An instruction adds the product of the upper halves to a sum, then that of the lower ones, each
// rounded as a multiply-add. It takes tiny numbers as zeros, as tiles do (tile_rows.h). Blocks of
// whole elements lie as tiles have them, because their sums are exact in any order. Those of floats
// have two neighbours of one of a part's chains (formats/block_products.h) in a pair: of every four
// elements the first pair has 0, then 2, and the second 1 and 3.
#if defined(BITPRESS_KERNELS_PAIR_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PAIR_SUMS_INL_H_
#undef BITPRESS_KERNELS_PAIR_SUMS_INL_H_
#else
#define BITPRESS_KERNELS_PAIR_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/product_vectors-inl.h"
#include "kernels/tile_rows.h"

// Targets without such dot products only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_PAIRS
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// There are no tiles to configure.
struct TileScope {
  HWY_INLINE explicit TileScope(size_t) {}
};

HWY_INLINE VF AddPairs(VI rows, VI columns, VF sum) {
  return VF{_mm512_dpbf16_ps(sum.raw, (__m512bh)rows.raw, (__m512bh)columns.raw)};
}

// Returns a pair of a row in all lanes. (GCC would load two of them as one number of 64 bits, and
// take that apart again.)
HWY_INLINE VI PairAt(const uint16_t* pair) {
  __m512i lanes;
  asm("vpbroadcastd %1, %0" : "=v"(lanes) : "m"(*reinterpret_cast<const uint16_t(*)[2]>(pair)));
  return VI{lanes};
}

// The columns of a part: the first pairs of each panel, and the bytes from pairs to the next.
template <size_t kPanels>
struct PairColumns {
  const uint8_t* first[kPanels];
  size_t depth, stride;
  size_t row_depth;  // the elements from a row to the next
};

// Asks for rows that will be read soon: weights come from far caches.
template <size_t kRows>
HWY_INLINE void FetchRows(const uint16_t* rows, size_t row_depth) {
  constexpr size_t kLine = 32;
  for (size_t k = 0; k < kRows * row_depth; k += kLine) {
    __builtin_prefetch(rows + k, /*for writing=*/0, /*first level=*/3);
  }
}

// Adds a part to the sums of kRows rows, which are zeros before the first part. It is not inlined,
// so that the registers are those of the chains.
template <size_t kRows, size_t kPanels>
HWY_NOINLINE void AddPairPart(const uint16_t* rows, const PairColumns<kPanels>& columns,
                              bool is_first, float* sums) {
  const size_t depth = columns.depth, stride = columns.stride, row_depth = columns.row_depth;
  const uint8_t* from[kPanels];
  FetchRows<kRows>(rows + kTileRows * row_depth, row_depth);
  HWY_UNROLL(2)
  for (size_t p = 0; p < kPanels; ++p) from[p] = columns.first[p];
  VF even[kRows][kPanels], odd[kRows][kPanels];
  HWY_UNROLL(16)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) even[r][p] = odd[r][p] = hn::Zero(kDf);
  }
  for (size_t k = 0; k < depth; k += 4, rows += 4) {
    VI first[kPanels], second[kPanels];
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) {
      first[p] = hn::LoadU(kDi, reinterpret_cast<const int32_t*>(from[p]));
      second[p] = hn::LoadU(kDi, reinterpret_cast<const int32_t*>(from[p] + stride));
      from[p] += 2 * stride;
    }
    HWY_UNROLL(16)
    for (size_t r = 0; r < kRows; ++r) {
      const uint16_t* const pairs = rows + r * row_depth;
      const VI evens = PairAt(pairs), odds = PairAt(pairs + 2);
      HWY_UNROLL(2)
      for (size_t p = 0; p < kPanels; ++p) {
        even[r][p] = AddPairs(evens, first[p], even[r][p]);
        odd[r][p] = AddPairs(odds, second[p], odd[r][p]);
      }
    }
  }
  HWY_UNROLL(16)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) {
      float* const sum = sums + (p * kTileRows + r) * kPanelColumns;
      const VF before = is_first ? hn::Zero(kDf) : hn::Load(kDf, sum);
      hn::Store(hn::Add(before, hn::Add(even[r][p], odd[r][p])), kDf, sum);
    }
  }
}

// Adds blocks of whole elements, whose sums are exact in any order, to the sums of kRows rows from
// `row` on.
template <size_t kRows, size_t kPanels, class Operands>
HWY_NOINLINE void AddWholePairs(const Operands& at, size_t row, size_t begin, size_t end,
                                bool is_first, float* to) {
  const size_t tile_depth = std::min(at.depth(), kTileDepth), stride = at.column_stride();
  VF sums[kRows][kPanels];
  HWY_UNROLL(16)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) {
      sums[r][p] =
          is_first ? hn::Zero(kDf) : hn::Load(kDf, to + (p * kTileRows + r) * kPanelColumns);
    }
  }
  for (size_t block = begin; block < end; ++block) {
    const uint8_t* from[kPanels];
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) {
      from[p] = reinterpret_cast<const uint8_t*>(at.columns(block, p));
    }
    VF of_block[kRows][kPanels];
    HWY_UNROLL(16)
    for (size_t r = 0; r < kRows; ++r) {
      HWY_UNROLL(2)
      for (size_t p = 0; p < kPanels; ++p) of_block[r][p] = hn::Zero(kDf);
    }
    const uint16_t* rows = at.rows(block) + row * tile_depth;
    const size_t depth = at.depth_of(block);
    FetchRows<kRows>(at.rows(block + (end - begin)) + row * tile_depth, tile_depth);
    for (size_t k = 0; k < depth; k += tile_depth, rows += kTileRows * tile_depth) {
      const size_t end_of_tile = std::min(tile_depth, depth - k);
      for (size_t pair = 0; pair < end_of_tile; pair += 2) {
        VI columns[kPanels];
        HWY_UNROLL(2)
        for (size_t p = 0; p < kPanels; ++p) {
          columns[p] = hn::LoadU(kDi, reinterpret_cast<const int32_t*>(from[p]));
          from[p] += stride;
        }
        HWY_UNROLL(16)
        for (size_t r = 0; r < kRows; ++r) {
          const VI factors = PairAt(rows + r * tile_depth + pair);
          HWY_UNROLL(2)
          for (size_t p = 0; p < kPanels; ++p) {
            of_block[r][p] = AddPairs(factors, columns[p], of_block[r][p]);
          }
        }
      }
    }
    HWY_UNROLL(16)
    for (size_t r = 0; r < kRows; ++r) {
      HWY_UNROLL(2)
      for (size_t p = 0; p < kPanels; ++p) sums[r][p] = hn::Add(sums[r][p], of_block[r][p]);
    }
  }
  HWY_UNROLL(16)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (size_t p = 0; p < kPanels; ++p) {
      hn::Store(sums[r][p], kDf, to + (p * kTileRows + r) * kPanelColumns);
    }
  }
}

// Calls add.template operator()<kRows>(row) for groups of rows, `count` in all. Two vectors for
// each row and panel have room in the registers.
template <size_t kPanels, class Function>
HWY_INLINE void ForRows(size_t count, const Function& add) {
  constexpr size_t kRows = kPanels == 1 ? 8 : 6;
  size_t row = 0;
  for (; row + kRows <= count; row += kRows) add.template operator()<kRows>(row);
  if (row + 4 <= count) {
    add.template operator()<4>(row);
    row += 4;
  }
  if (row + 2 <= count) {
    add.template operator()<2>(row);
    row += 2;
  }
  if (row < count) add.template operator()<1>(row);
}

// Add the first `count` blocks to sums [panels, rows, columns], which are zeros before the first.
// Operands are those of tiles (tile_sums-inl.h), of which num_rows() rows are summed, and
// depth_of(block) elements.
template <size_t kPanels, class Operands>
HWY_INLINE void AddTileBlocks(const Operands& at, size_t count, bool is_first, float* to) {
  // Columns of so many elements stay in the first-level cache.
  constexpr size_t kMostElements = 256;
  const size_t step = std::max<size_t>(1, kMostElements / at.depth());
  for (size_t begin = 0; begin < count; begin += step) {
    const size_t end = std::min(begin + step, count);
    ForRows<kPanels>(at.num_rows(), [&]<size_t kRows>(size_t row) {
      AddWholePairs<kRows, kPanels>(at, row, begin, end, is_first && begin == 0,
                                    to + row * kPanelColumns);
    });
  }
}
template <size_t kPanels, class Operands>
HWY_INLINE void AddFloatTileBlocks(const Operands& at, size_t count, bool is_first, float* to) {
  const size_t stride = at.column_stride();
  PairColumns<kPanels> columns{{}, 0, stride, std::min(at.depth(), kTileDepth)};
  for (size_t block = 0; block < count; ++block) {
    const uint16_t* rows = at.rows(block);
    const size_t depth = at.depth_of(block);
    for (size_t k = 0; k < depth; k += kTileDepth, rows += kTileRows * kTileDepth) {
      columns.depth = std::min(kTileDepth, depth - k);
      for (size_t p = 0; p < kPanels; ++p) {
        const uint16_t* const of_block = at.columns(block, p);
        columns.first[p] = reinterpret_cast<const uint8_t*>(of_block) + k / 2 * stride;
      }
      ForRows<kPanels>(at.num_rows(), [&]<size_t kRows>(size_t row) {
        AddPairPart<kRows, kPanels>(rows + row * columns.row_depth, columns,
                                    is_first && block + k == 0, to + row * kPanelColumns);
      });
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_PAIRS

#endif  // BITPRESS_KERNELS_PAIR_SUMS_INL_H_
