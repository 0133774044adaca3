// The sums of 16 rows and one or two panels of 16 columns over blocks, by tiles. For the vector
// code of products and convolutions.
#if defined(BITPRESS_KERNELS_TILE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_TILE_SUMS_INL_H_
#undef BITPRESS_KERNELS_TILE_SUMS_INL_H_
#else
#define BITPRESS_KERNELS_TILE_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/product_vectors-inl.h"
#include "kernels/tiles-inl.h"

// Targets without tiles only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_TILES
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The sums of one block, of rows with each panel.
template <size_t kPanels>
using BlockTiles = float[kPanels][kTileRows][kPanelColumns];

// The tiles that hold the sums of a set, a panel in each, and its rows. Tiles of different sets are
// independent of each other.
template <int kSet>
constexpr int kSumsOf = kSumTile + 2 * kSet;
template <int kSet>
constexpr int kRowsOf = kRowTile + kSet;

template <int kSet, size_t kPanels>
HWY_INLINE void ClearSums() {
  ClearTile<kSumsOf<kSet>>();
  if constexpr (kPanels > 1) ClearTile<kSumsOf<kSet> + 1>();
}
template <int kSet, size_t kPanels>
HWY_INLINE void LoadSums(const float* from) {
  LoadTile<kSumsOf<kSet>>(from, kTileRowBytes);
  if constexpr (kPanels > 1) {
    LoadTile<kSumsOf<kSet> + 1>(from + kTileRows * kPanelColumns, kTileRowBytes);
  }
}
template <int kSet, size_t kPanels>
HWY_INLINE void StoreSums(float* to) {
  StoreTile<kSumsOf<kSet>>(to, kTileRowBytes);
  if constexpr (kPanels > 1) {
    StoreTile<kSumsOf<kSet> + 1>(to + kTileRows * kPanelColumns, kTileRowBytes);
  }
}

// Adds the products of a block to the sums of a set. Operands say where blocks lie: rows(block), a
// tile of each kTileDepth elements, or kTerms tiles of the terms of these; columns(block, panel),
// of which pairs of elements are column_stride() bytes apart; and depth(), the elements of a block,
// filled up.
template <int kSet, size_t kPanels, class Operands>
HWY_INLINE void AddBlock(const Operands& at, size_t block) {
  constexpr int kFirst = kSumsOf<kSet>, kRows = kRowsOf<kSet>;
  const size_t depth = at.depth(), tile_depth = std::min(depth, kTileDepth);
  const size_t stride = at.column_stride();
  const uint16_t* rows = at.rows(block);
  for (size_t k = 0; k < depth; k += tile_depth) {
    const size_t column = k / 2 * stride / sizeof(uint16_t);
    LoadTile<kColumnTile>(at.columns(block, 0) + column, stride);
    if constexpr (kPanels > 1) LoadTile<kColumnTile + 1>(at.columns(block, 1) + column, stride);
    HWY_UNROLL(3)
    for (size_t term = 0; term < Operands::kTerms; ++term, rows += kTileRows * tile_depth) {
      LoadTile<kRows>(rows, tile_depth * sizeof(uint16_t));
      AddTileProducts<kFirst, kRows, kColumnTile>();
      if constexpr (kPanels > 1) AddTileProducts<kFirst + 1, kRows, kColumnTile + 1>();
    }
  }
}

template <int kSet, size_t kPanels, class Operands>
HWY_INLINE void MultiplyBlock(const Operands& at, size_t block, BlockTiles<kPanels>& to) {
  ClearSums<kSet, kPanels>();
  AddBlock<kSet, kPanels>(at, block);
  StoreSums<kSet, kPanels>(to[0][0]);
}

template <size_t kPanels>
HWY_INLINE void AddTiles(const BlockTiles<kPanels>& tiles, VF (&sums)[kPanels][kTileRows]) {
  HWY_UNROLL(2)
  for (size_t p = 0; p < kPanels; ++p) {
    HWY_UNROLL(16)
    for (size_t r = 0; r < kTileRows; ++r) {
      sums[p][r] = hn::Add(sums[p][r], hn::Load(kDf, tiles[p][r]));
    }
  }
}

// Adds the first `count` blocks to sums [panels, rows, columns], which are zeros before the first.
// The products of a block run while those of the one before are added.
template <size_t kPanels, class Operands>
HWY_INLINE void AddTileBlocks(const Operands& at, size_t count, bool is_first, float* to) {
  VF sums[kPanels][kTileRows];
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t r = 0; r < kTileRows; ++r) {
      const float* const from = to + (p * kTileRows + r) * kPanelColumns;
      sums[p][r] = is_first ? hn::Zero(kDf) : hn::Load(kDf, from);
    }
  }
  alignas(64) BlockTiles<kPanels> even, odd;
  MultiplyBlock<0, kPanels>(at, 0, even);
  for (size_t block = 0; block < count; block += 2) {
    if (block + 1 < count) MultiplyBlock<1, kPanels>(at, block + 1, odd);
    AddTiles<kPanels>(even, sums);
    if (block + 1 == count) break;
    if (block + 2 < count) MultiplyBlock<0, kPanels>(at, block + 2, even);
    AddTiles<kPanels>(odd, sums);
  }
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t r = 0; r < kTileRows; ++r) {
      hn::Store(sums[p][r], kDf, to + (p * kTileRows + r) * kPanelColumns);
    }
  }
}

// Adds the first `count` blocks of floats to the same sums, which stay in tiles.
template <size_t kPanels, class Operands>
HWY_INLINE void AddFloatTileBlocks(const Operands& at, size_t count, bool is_first, float* to) {
  if (is_first) {
    ClearSums<0, kPanels>();
  } else {
    LoadSums<0, kPanels>(to);
  }
  for (size_t block = 0; block < count; ++block) AddBlock<0, kPanels>(at, block);
  StoreSums<0, kPanels>(to);
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_TILES

#endif  // BITPRESS_KERNELS_TILE_SUMS_INL_H_
