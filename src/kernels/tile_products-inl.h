// The code of products in blocks with tiles, or with pairs in their place. For
// block_products_tiles.cc and block_products_pairs.cc, which alone include it.
#if defined(BITPRESS_KERNELS_TILE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_TILE_PRODUCTS_INL_H_
#undef BITPRESS_KERNELS_TILE_PRODUCTS_INL_H_
#else
#define BITPRESS_KERNELS_TILE_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "base/round_up.h"
#include "kernels/pair_sums-inl.h"
#include "kernels/product_codes-inl.h"
#include "kernels/product_floats-inl.h"
#include "kernels/product_sums-inl.h"
#include "kernels/product_task.h"
#include "kernels/scratch.h"
#include "kernels/tile_sums-inl.h"

// Targets without tiles only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_IN_TILES
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

constexpr hn::RebindToUnsigned<decltype(kDf)> kDu;
using VU = hn::VFromD<decltype(kDu)>;

#ifdef BITPRESS_PRODUCTS_WITH_TILES
constexpr bool kHasTiles = true;
#else
constexpr bool kHasTiles = false;
#endif

// Joins the upper halves of floats that bfloat16 holds to pairs.
HWY_INLINE VU JoinPairs(VU first, VU second) {
  return hn::OrAnd(hn::ShiftRight<16>(first), second, hn::Set(kDu, 0xFFFF0000));
}

// Writes four elements of each column, whose values are in the upper halves, in the order that rows
// of kPairs have or in that of tiles.
HWY_INLINE void StoreFour(const VU (&values)[4], bool are_pairs, uint32_t* to) {
  const VU first = are_pairs ? JoinPairs(values[2], values[0]) : JoinPairs(values[0], values[1]);
  const VU second = are_pairs ? JoinPairs(values[3], values[1]) : JoinPairs(values[2], values[3]);
  hn::StoreU(first, kDu, to);
  hn::StoreU(second, kDu, to + kPanelColumns);
}

// Turns codes into values. With `kCodeStart` as its upper bits a code is the number 2^23 + code.
template <PanelCodes kCodes>
struct TileDecoder {
  static constexpr uint32_t kCodeStart = 0x4B000000;
  static constexpr bool kIsNine = kCodes == PanelCodes::kNine;

  HWY_INLINE TileDecoder(const ProductPanels& panels, const uint8_t* block_units)
      : offset(hn::Set(kDf, -0x1p23F - static_cast<float>(kIsNine ? 128 : panels.offset()))),
        exponents(hn::PromoteTo(kDu, hn::LoadU(kBytesOfLanes, block_units))) {}

  // Gives the elements 2 * pair and 2 * pair + 1 of four of each column. Bit 2 * column + pair of
  // `doubled` says whether both are doubled.
  template <int kPair>
  HWY_INLINE void Pair(VU four, uint32_t doubled, VU (&values)[4]) const {
    VU exponent = exponents;
    if constexpr (kIsNine) {
      const VU place = hn::Add(hn::ShiftLeft<1>(hn::Iota(kDu, 0)), hn::Set(kDu, kPair));
      const VU is_doubled = hn::And(hn::Shr(hn::Set(kDu, doubled), place), hn::Set(kDu, 1));
      exponent = hn::Add(exponent, is_doubled);
    }
    const VF unit = hn::BitCast(kDf, hn::ShiftLeft<23>(exponent));
    const VF start = hn::Mul(offset, unit);
    const auto value = [&](VU code) HWY_ATTR {
      const VU bits = hn::OrAnd(hn::Set(kDu, kCodeStart), code, hn::Set(kDu, 0xFF));
      return hn::BitCast(kDu, hn::MulAdd(hn::BitCast(kDf, bits), unit, start));
    };
    values[2 * kPair] = value(hn::ShiftRight<16 * kPair>(four));
    values[2 * kPair + 1] = value(hn::ShiftRight<16 * kPair + 8>(four));
  }

  VF offset;
  VU exponents;
};

// Writes the values of a block of a panel as rows of a tile, pairs of elements of each column.
template <PanelCodes kCodes>
HWY_INLINE void DecodeTiles(const ProductPanels& panels, size_t panel, size_t block, bool are_pairs,
                            uint16_t* out) {
  using Reader = CodeReader<kCodes>;
  const Reader reader(panels.table().data());
  const uint8_t* const codes = panels.codes(panel) + block * panels.block_bytes();
  const uint8_t* const doubled = panels.doubled(panel) + block * panels.doubled_block_bytes();
  const TileDecoder<kCodes> decoder(panels, panels.units(panel) + block * kPanelColumns);
  auto* to = reinterpret_cast<uint32_t*>(out);
  for (size_t k = 0; k < panels.padded_block(); k += 4) {
    const uint8_t* const group = codes + k / Reader::kDepth * Reader::kBytes;
    VU four;
    uint32_t bits = 0;
    if constexpr (kCodes == PanelCodes::kNine) {
      four = hn::Xor(hn::BitCast(kDu, hn::LoadU(kD8, group)), hn::Set(kDu, 0x80808080));
      std::memcpy(&bits, doubled + k, sizeof(bits));
    } else {
      four = hn::BitCast(kDu, reader.Bytes(group, k % Reader::kDepth / 4));
    }
    VU values[4];
    decoder.template Pair<0>(four, bits, values);
    decoder.template Pair<1>(four, bits, values);
    StoreFour(values, are_pairs, to);
    to += 2 * kPanelColumns;
  }
}

// Does so for codes of 8-bit floats.
template <PanelCodes kCodes>
HWY_INLINE void DecodeFloatTiles(const ProductPanels& panels, size_t panel, size_t block,
                                 bool are_pairs, uint16_t* out) {
  const FloatReader<kCodes> reader(panels);
  const uint8_t* const codes = panels.codes(panel) + block * panels.block_bytes();
  const BlockValues value(reader, UnitsAt(panels.units(panel) + block * kPanelColumns));
  auto* to = reinterpret_cast<uint32_t*>(out);
  for (size_t k = 0; k < panels.padded_block(); k += 4, to += 2 * kPanelColumns) {
    VF numbers[4];
    reader.Four(codes, nullptr, k, 0, numbers);
    VU bits[4];
    for (size_t i = 0; i < 4; ++i) bits[i] = hn::BitCast(kDu, value(numbers[i]));
    StoreFour(bits, are_pairs, to);
  }
}

// Does so for those of bfloat16, which lie as tiles have them.
HWY_INLINE void CopyBfloat16Tiles(const ProductPanels& panels, size_t panel, size_t block,
                                  bool are_pairs, uint16_t* out) {
  const uint8_t* const codes = panels.codes(panel) + block * panels.block_bytes();
  if (!are_pairs) {
    std::memcpy(out, codes, panels.block_bytes());
    return;
  }
  const auto* from = reinterpret_cast<const uint32_t*>(codes);
  auto* to = reinterpret_cast<uint32_t*>(out);
  for (size_t k = 0; k < panels.padded_block(); k += 4, to += 2 * kPanelColumns) {
    VU values[4];
    for (size_t i = 0; i < 4; i += 2, from += kPanelColumns) {
      values[i + 1] = hn::LoadU(kDu, from);
      values[i] = hn::ShiftLeft<16>(values[i + 1]);
    }
    StoreFour(values, are_pairs, to);
  }
}

// A piece of one or two panels, whose values stay in the cache: blocks [begin, end).
struct PanelPiece {
  size_t panel, begin, end;
};

// A piece's blocks of kTileRows rows, which have kNumTerms terms, and of panels, one after another.
template <size_t kNumTerms>
struct ProductOperands {
  static constexpr size_t kTerms = kNumTerms;
  const uint16_t* first_row;
  const uint16_t* first_column;
  size_t panel_elements, block_depth, count;

  HWY_INLINE size_t num_rows() const { return count; }
  HWY_INLINE size_t depth() const { return block_depth; }
  HWY_INLINE size_t depth_of(size_t) const { return block_depth; }
  HWY_INLINE const uint16_t* rows(size_t block) const {
    return first_row + block * kTerms * kTileRows * block_depth;
  }
  HWY_INLINE const uint16_t* columns(size_t block, size_t panel) const {
    return first_column + panel * panel_elements + block * kPanelColumns * block_depth;
  }
  HWY_INLINE size_t column_stride() const { return kTileRowBytes; }
};

// Asks for the codes of a piece, which come from memory while products of another one run, a share
// for each of `num_steps` steps.
HWY_INLINE void PrefetchCodes(const ProductPanels& panels, const PanelPiece& piece,
                              size_t num_panels, size_t step, size_t num_steps) {
  constexpr size_t kLine = 64;
  const size_t lines = (piece.end - piece.begin) * panels.block_bytes() / kLine;
  for (size_t p = 0; p < num_panels; ++p) {
    const uint8_t* const codes = panels.codes(piece.panel + p) + piece.begin * panels.block_bytes();
    for (size_t line = lines * step / num_steps; line < lines * (step + 1) / num_steps; ++line) {
      _mm_prefetch(reinterpret_cast<const char*>(codes + line * kLine), _MM_HINT_T1);
    }
  }
}

// Writes the values of a piece, whose panels are `panel_elements` apart.
template <PanelCodes kCodes, size_t kPanels>
HWY_INLINE void DecodePiece(const ProductPanels& panels, const PanelPiece& piece, bool are_pairs,
                            size_t panel_elements, uint16_t* columns) {
  const size_t block_elements = DepthInTiles(panels.padded_block()) * kPanelColumns;
  const size_t count = piece.end - piece.begin;
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t b = 0; b < count; ++b) {
      uint16_t* const to = columns + p * panel_elements + b * block_elements;
      if constexpr (kCodes == PanelCodes::kE4M3 || kCodes == PanelCodes::kE5M2) {
        DecodeFloatTiles<kCodes>(panels, piece.panel + p, piece.begin + b, are_pairs, to);
      } else if constexpr (kCodes == PanelCodes::kBfloat16) {
        CopyBfloat16Tiles(panels, piece.panel + p, piece.begin + b, are_pairs, to);
      } else {
        DecodeTiles<kCodes>(panels, piece.panel + p, piece.begin + b, are_pairs, to);
      }
      std::fill(to + panels.padded_block() * kPanelColumns, to + block_elements, uint16_t{0});
    }
    // Rows in terms have whole tiles.
    std::fill(columns + p * panel_elements + count * block_elements,
              columns + (p + 1) * panel_elements, uint16_t{0});
  }
}

// Adds the products of up to 16 rows from `row` on with `num_steps` steps of a piece to their sums,
// which are zeros before the first piece.
template <size_t kPanels>
HWY_INLINE void AddRows(const ProductTask& task, size_t row, size_t begin,
                        const ProductOperands<1>& columns, size_t num_steps, float* sums) {
  ProductOperands<1> operands = columns;
  const bool is_first = begin == 0;
#ifdef BITPRESS_PRODUCTS_WITH_TILES
  if (task.rows->form() == RowForm::kTerms) {
    const size_t depth = DepthInTiles(task.panels->padded_block());
    operands.first_row = task.rows->terms(row, begin * depth / kTileDepth);
    if (task.rows->num_terms() > 1) {
      const ProductOperands<formats::kNumTerms> of_terms{operands.first_row, columns.first_column,
                                                         columns.panel_elements,
                                                         columns.block_depth, columns.count};
      return AddFloatTileBlocks<kPanels>(of_terms, num_steps, is_first, sums);
    }
    return AddFloatTileBlocks<kPanels>(operands, num_steps, is_first, sums);
  }
#endif
  operands.first_row = task.rows->tiles(row, begin);
  if (task.sums == formats::ProductSums::kWhole) {
    return AddTileBlocks<kPanels>(operands, num_steps, is_first, sums);
  }
  AddFloatTileBlocks<kPanels>(operands, num_steps, is_first, sums);
}

// Adds the products of the rows of a task with a piece of kPanels panels to `sums` [groups of rows,
// panels, rows, columns]. There is room for the piece's values at `columns`.
template <PanelCodes kCodes, size_t kPanels>
void AddPiece(const ProductTask& task, const PanelPiece& piece, const PanelPiece& next,
              uint16_t* columns, float* sums) {
  const ProductPanels& panels = *task.panels;
  const size_t depth = DepthInTiles(panels.padded_block());
  const bool has_terms = task.rows->form() == RowForm::kTerms;
  // Terms are in whole tiles, of several short blocks.
  const size_t step = has_terms ? kTileDepth : depth;
  const size_t num_steps = CeilDivide((piece.end - piece.begin) * depth, step);
  const size_t panel_elements = num_steps * step * kPanelColumns;
  DecodePiece<kCodes, kPanels>(panels, piece, task.rows->form() == RowForm::kPairs, panel_elements,
                               columns);
  const size_t num_groups = CeilDivide(task.row_end - task.row_begin, kTileRows);
  for (size_t group = 0; group < num_groups; ++group) {
    PrefetchCodes(panels, next, kPanels, group, num_groups);
    const size_t row = task.row_begin + group * kTileRows;
    const size_t num_rows = std::min(kTileRows, task.row_end - row);
    AddRows<kPanels>(task, row, piece.begin, {nullptr, columns, panel_elements, step, num_rows},
                     num_steps, sums + group * kPanels * kTileRows * kPanelColumns);
  }
}

// Stores the sums of one row, which AddPiece left.
template <size_t kPanels>
HWY_INLINE void StoreRow(const ProductTask& task, size_t row, size_t panel, const float* sums) {
  const size_t group = row / kTileRows, within = row % kTileRows;
  Sums<1, kPanels> result;
  for (size_t p = 0; p < kPanels; ++p) {
    result.values[0][p] =
        hn::Load(kDf, sums + ((group * kPanels + p) * kTileRows + within) * kPanelColumns);
  }
  result.Store(task, task.row_begin + row, panel, true);
}

// Multiplies panels in pairs, and a last one alone. All of them read a piece of the rows before the
// next piece, so that it stays in the cache.
template <PanelCodes kCodes>
void MultiplyCodes(const ProductTask& task) {
  // Elements of a column. The columns of pairs are read once for some rows each, and so they stay
  // in the first-level cache.
  constexpr size_t kPieceDepth = kHasTiles ? 512 : 256;
  const ProductPanels& panels = *task.panels;
  const size_t depth = DepthInTiles(panels.padded_block()), num_blocks = panels.num_blocks();
  const size_t step = std::max<size_t>(1, kPieceDepth / depth);
  const size_t num_rows = task.row_end - task.row_begin;
  const size_t panel_floats = RoundUp(num_rows, kTileRows) * kPanelColumns;
  const Scratch columns_scratch(2 * step * depth * kPanelColumns * sizeof(uint16_t));
  const bool has_terms = task.rows->form() == RowForm::kTerms;
  const Scratch sums_scratch((task.panel_end - task.panel_begin) * panel_floats * sizeof(float));
  auto* const columns = columns_scratch.template data<uint16_t>();
  auto* const sums = sums_scratch.template data<float>();
  const TileScope scope(has_terms ? kTileDepth : std::min(depth, kTileDepth));
  for (size_t begin = 0; begin < num_blocks; begin += step) {
    const size_t end = std::min(begin + step, num_blocks);
    for (size_t panel = task.panel_begin; panel < task.panel_end; panel += 2) {
      const PanelPiece piece{panel, begin, end};
      float* const of_panel = sums + (panel - task.panel_begin) * panel_floats;
      if (panel + 1 == task.panel_end) {
        AddPiece<kCodes, 1>(task, piece, {panel, end, end}, columns, of_panel);
        continue;
      }
      const bool is_last = panel + 4 > task.panel_end;
      const PanelPiece next =
          is_last ? PanelPiece{task.panel_begin, end, std::min(end + step, num_blocks)}
                  : PanelPiece{panel + 2, begin, end};
      AddPiece<kCodes, 2>(task, piece, next, columns, of_panel);
    }
  }
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t panel = task.panel_begin; panel < task.panel_end; panel += 2) {
      const float* const of_panel = sums + (panel - task.panel_begin) * panel_floats;
      panel + 1 < task.panel_end ? StoreRow<2>(task, row, panel, of_panel)
                                 : StoreRow<1>(task, row, panel, of_panel);
    }
  }
}

void Multiply(const ProductTask& task) {
  switch (task.panels->codes_kind()) {
    case PanelCodes::kFour:
      return MultiplyCodes<PanelCodes::kFour>(task);
    case PanelCodes::kSix:
      return MultiplyCodes<PanelCodes::kSix>(task);
    case PanelCodes::kEight:
      return MultiplyCodes<PanelCodes::kEight>(task);
    case PanelCodes::kNine:
      return MultiplyCodes<PanelCodes::kNine>(task);
    case PanelCodes::kE4M3:
      return MultiplyCodes<PanelCodes::kE4M3>(task);
    case PanelCodes::kE5M2:
      return MultiplyCodes<PanelCodes::kE5M2>(task);
    case PanelCodes::kBfloat16:
      return MultiplyCodes<PanelCodes::kBfloat16>(task);
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_IN_TILES

#endif  // BITPRESS_KERNELS_TILE_PRODUCTS_INL_H_
