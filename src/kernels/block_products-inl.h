// The vector code of products in blocks. It is compiled once a target, and for targets with dot
// products of bytes once more: files that include it define BITPRESS_PRODUCTS_WITH_DOT as 0 or 1
// and have set the compiler's target.
#if defined(BITPRESS_KERNELS_BLOCK_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_BLOCK_PRODUCTS_INL_H_
#undef BITPRESS_KERNELS_BLOCK_PRODUCTS_INL_H_
#else
#define BITPRESS_KERNELS_BLOCK_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/round_up.h"
#include "kernels/product_codes-inl.h"
#include "kernels/product_floats-inl.h"
#include "kernels/product_sums-inl.h"
#include "kernels/product_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

HWY_INLINE int32_t LoadInt(const uint8_t* bytes) {
  int32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Loads the codes of a step of a block, four elements of each column of the panels.
template <class Reader, size_t kVectors>
HWY_INLINE void LoadStep(const Reader& reader, const uint8_t* codes, size_t panel_bytes,
                         size_t step, V8 (&elements)[kVectors]) {
  constexpr size_t kStepsOfGroup = Reader::kDepth / 4;
  const uint8_t* const group = codes + step / kStepsOfGroup * Reader::kBytes;
  for (size_t v = 0; v < kVectors; ++v) {
    elements[v] = reader.Bytes(group + v / kParts * panel_bytes + v % kParts * kVectorBytes,
                               step % kStepsOfGroup);
  }
}

// Returns the four elements of a row that a step multiplies, in all lanes.
HWY_INLINE V8i RowStep(const uint8_t* row, size_t step) {
  return hn::BitCast(kD8i, hn::Set(kDi, LoadInt(row + 4 * step)));
}

// Adds the products of groups [first, last) of a block of bytes. They are unrolled where the
// numbers are constants, so that all sums stay in registers.
template <class Reader, size_t kRows, size_t kPanels>
HWY_INLINE void AddGroups(const Reader& reader, const uint8_t* codes, size_t panel_bytes,
                          const uint8_t* const (&rows)[kRows], size_t first, size_t last,
                          VI (&block)[kRows][kPanels * kParts]) {
  constexpr size_t kVectors = kPanels * kParts;
  ByteSums<kRows, kVectors> words;
  constexpr size_t kStepsOfGroup = Reader::kDepth / 4;
  HWY_UNROLL(kUnrolled)
  for (size_t g = first; g < last; ++g) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < kStepsOfGroup; ++i) {
      const size_t step = g * kStepsOfGroup + i;
      V8 elements[kVectors];
      LoadStep(reader, codes, panel_bytes, step, elements);
      for (size_t r = 0; r < kRows; ++r) {
        const V8i four = RowStep(rows[r], step);
        for (size_t v = 0; v < kVectors; ++v) {
          block[r][v] = words.Add(r, v, elements[v], four, block[r][v]);
        }
      }
    }
  }
  words.Finish(block);
}

#if !BITPRESS_PRODUCTS_WITH_DOT && !BITPRESS_IS_ARM64
// Gives the sums of a whole block, counted from `starts` on, whose products stay within 16 bits.
template <class Reader, size_t kRows, size_t kPanels>
HWY_INLINE void SumSteps(const Reader& reader, const uint8_t* codes, size_t panel_bytes,
                         const uint8_t* const (&rows)[kRows], size_t num_steps,
                         const int32_t* const (&starts)[kRows], size_t b,
                         VI (&block)[kRows][kPanels * kParts]) {
  constexpr size_t kVectors = kPanels * kParts;
  V16 words[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) words[r][v] = hn::Zero(kD16);
  }
  HWY_UNROLL(8)
  for (size_t step = 0; step < num_steps; ++step) {
    V8 elements[kVectors];
    LoadStep(reader, codes, panel_bytes, step, elements);
    for (size_t r = 0; r < kRows; ++r) {
      const V8i four = RowStep(rows[r], step);
      for (size_t v = 0; v < kVectors; ++v) {
        words[r][v] = SumNow(words[r][v], SumOfBytePairs(elements[v], four));
      }
    }
  }
  const V16 ones = hn::Set(kD16, 1);
  for (size_t r = 0; r < kRows; ++r) {
    const VI start = hn::Set(kDi, starts[r][b]);
    for (size_t v = 0; v < kVectors; ++v) {
      block[r][v] = hn::Add(start, SumOfPairs(words[r][v], ones));
    }
  }
}

// Does the same where only two steps of four elements at a time stay within 16 bits.
template <class Reader, size_t kRows, size_t kPanels>
HWY_INLINE void SumStepPairs(const Reader& reader, const uint8_t* codes, size_t panel_bytes,
                             const uint8_t* const (&rows)[kRows], size_t num_steps,
                             const int32_t* const (&starts)[kRows], size_t b,
                             VI (&block)[kRows][kPanels * kParts]) {
  constexpr size_t kVectors = kPanels * kParts;
  const V16 ones = hn::Set(kD16, 1);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) block[r][v] = hn::Set(kDi, starts[r][b]);
  }
  HWY_UNROLL(4)
  for (size_t step = 0; step < num_steps; step += 2) {
    V8 first[kVectors], second[kVectors];
    LoadStep(reader, codes, panel_bytes, step, first);
    LoadStep(reader, codes, panel_bytes, step + 1, second);
    for (size_t r = 0; r < kRows; ++r) {
      const V8i row_first = RowStep(rows[r], step), row_second = RowStep(rows[r], step + 1);
      for (size_t v = 0; v < kVectors; ++v) {
        const V16 words =
            hn::Add(SumOfBytePairs(first[v], row_first), SumOfBytePairs(second[v], row_second));
        block[r][v] = SumNow(block[r][v], SumOfPairs(words, ones));
      }
    }
  }
}
#endif

// Adds blocks [begin, end) of rows of bytes. The codes of block b lie at b - begin. kDepth is the
// padded length of a block, 0 if that is no constant.
template <PanelCodes kCodes, size_t kDepth, size_t kRows, size_t kPanels>
HWY_INLINE void AddBytes(const ProductTask& task, const TileCodes& tile, size_t row, size_t begin,
                         size_t end, Sums<kRows, kPanels>& sums) {
  using Reader = CodeReader<kCodes>;
  constexpr size_t kVectors = kPanels * kParts;
  const Reader reader(task.panels->table().data());
  const size_t depth = kDepth > 0 ? kDepth : task.panels->padded_block();
  const size_t groups = depth / Reader::kDepth;
  const size_t groups_in_words = std::max<size_t>(1, task.steps_in_words * 4 / Reader::kDepth);
  const uint8_t* rows[kRows];
  const float* units[kRows];
  const int32_t* starts[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    rows[r] = task.rows->elements(row + r) + begin * depth;
    units[r] = task.rows->units(row + r);
    starts[r] = task.rows->starts(row + r);
  }
  LoopSums<kRows, kPanels> local = sums;
  for (size_t b = begin; b < end; ++b) {
    VI block[kRows][kVectors];
    const uint8_t* const codes = tile.codes + (b - begin) * tile.block_bytes;
#if !BITPRESS_PRODUCTS_WITH_DOT && !BITPRESS_IS_ARM64
    if (groups <= groups_in_words) {
      SumSteps<Reader, kRows, kPanels>(reader, codes, tile.panel_bytes, rows, depth / 4, starts, b,
                                       block);
    } else if (task.steps_in_words > 1 && depth % 8 == 0) {
      SumStepPairs<Reader, kRows, kPanels>(reader, codes, tile.panel_bytes, rows, depth / 4, starts,
                                           b, block);
    } else
#endif
    {
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t v = 0; v < kVectors; ++v) block[r][v] = hn::Set(kDi, starts[r][b]);
      }
      const size_t step = kHasDot ? groups : groups_in_words;
      for (size_t g = 0; g < groups; g += step) {
        AddGroups<Reader, kRows, kPanels>(reader, codes, tile.panel_bytes, rows, g,
                                          std::min(g + step, groups), block);
      }
    }
    for (size_t r = 0; r < kRows; ++r) rows[r] += depth;
    local.AddWhole(block, tile, b - begin, units, b);
  }
  if constexpr (kIsCopied) sums = local;
}

// Adds blocks [begin, end) of rows of words.
template <PanelCodes kCodes, size_t kRows, size_t kPanels>
HWY_INLINE void AddWords(const ProductTask& task, const TileCodes& tile, size_t row, size_t begin,
                         size_t end, Sums<kRows, kPanels>& sums) {
  using Reader = CodeReader<kCodes>;
  constexpr size_t kVectors = kPanels * kParts;
  const Reader reader(task.panels->table().data());
  const size_t depth = task.panels->padded_block();
  const uint8_t* rows[kRows];
  const float* units[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    rows[r] = task.rows->elements(row + r) + begin * depth * sizeof(int16_t);
    units[r] = task.rows->units(row + r);
  }
  LoopSums<kRows, kPanels> local = sums;
  for (size_t b = begin; b < end; ++b) {
    VI block[kRows][kVectors];
    for (size_t r = 0; r < kRows; ++r) {
      const int32_t start = task.rows->starts(row + r)[b];
      for (size_t v = 0; v < kVectors; ++v) block[r][v] = hn::Set(kDi, start);
    }
    WordSums<kRows, kVectors> words;
    for (size_t g = 0; g < depth / Reader::kDepth; ++g) {
      HWY_UNROLL(4)
      for (size_t step = 0; step < Reader::kDepth / 4; ++step) {
        V16 even[kVectors], odd[kVectors];
        for (size_t v = 0; v < kVectors; ++v) {
          const size_t panel = v / kParts, part = v % kParts;
          const uint8_t* const codes = tile.codes + panel * tile.panel_bytes +
                                       (b - begin) * tile.block_bytes + g * Reader::kBytes +
                                       part * kVectorBytes;
          const uint8_t* const doubled = tile.doubled + panel * tile.doubled_panel_bytes +
                                         (b - begin) * tile.doubled_block_bytes + 4 * g +
                                         part * kVectorBytes / 16;
          reader.Words(codes, doubled, step, even[v], odd[v]);
        }
        for (size_t r = 0; r < kRows; ++r) {
          const uint8_t* const four = rows[r] + (g * Reader::kDepth + 4 * step) * sizeof(int16_t);
          const V16 row_even = hn::BitCast(kD16, hn::Set(kDi, LoadInt(four)));
          const V16 row_odd = hn::BitCast(kD16, hn::Set(kDi, LoadInt(four + 4)));
          for (size_t v = 0; v < kVectors; ++v) {
            block[r][v] = words.Add(r, v, even[v], row_even, block[r][v]);
            block[r][v] = words.Add(r, v, odd[v], row_odd, block[r][v]);
          }
        }
      }
    }
    words.Finish(block);
    for (size_t r = 0; r < kRows; ++r) rows[r] += depth * sizeof(int16_t);
    local.AddWhole(block, tile, b - begin, units, b);
  }
  if constexpr (kIsCopied) sums = local;
}

// Adds blocks of rows of bytes by unrolled code if they have a usual length and most of the time is
// spent in such tiles.
template <PanelCodes kCodes, size_t kRows, size_t kPanels>
HWY_INLINE void AddUsualBytes(const ProductTask& task, const TileCodes& tile, size_t row,
                              size_t begin, size_t end, Sums<kRows, kPanels>& sums) {
  constexpr bool kIsFrequent =
      kPanels == kTilePanels ? kRows == TileRows(RowForm::kBytes) || kRows == 1 : kPanels > 1;
  if constexpr (kHasUsualBlocks && kIsFrequent) {
    const size_t depth = task.panels->padded_block();
    if (depth == 32) return AddBytes<kCodes, 32>(task, tile, row, begin, end, sums);
    if (depth == 16) return AddBytes<kCodes, 16>(task, tile, row, begin, end, sums);
    if constexpr (kCodes != PanelCodes::kSix) {
      if (depth == 8) return AddBytes<kCodes, 8>(task, tile, row, begin, end, sums);
    }
  }
  AddBytes<kCodes, 0>(task, tile, row, begin, end, sums);
}

// A part of a task: tiles of `panels` panels from `panel` on, and blocks [begin, end).
struct Part {
  size_t panel, begin, end;
  TileCodes tile;
  const float* decoded = nullptr;  // the values of columns, of several rows of floats
};

template <PanelCodes kCodes, RowForm kForm, size_t kRows, size_t kPanels>
void MultiplyTile(const ProductTask& task, const Part& part, size_t row) {
  Sums<kRows, kPanels> sums;
  sums.Load(task, row, part.panel, part.begin == 0);
  if constexpr (kForm == RowForm::kFloats) {
    const size_t panel_floats =
        (part.end - part.begin) * task.panels->padded_block() * kPanelColumns;
    if (part.decoded != nullptr) {
      AddFloats(task, {part.decoded, panel_floats}, row, part.begin, part.end, sums);
    } else if constexpr (kRows == 1) {
      AddFloatRow<kCodes>(task, part.tile, row, part.end, sums);
    }
  } else if constexpr (kForm == RowForm::kBytes) {
    AddUsualBytes<kCodes>(task, part.tile, row, part.begin, part.end, sums);
  } else {
    AddWords<kCodes>(task, part.tile, row, part.begin, part.end, sums);
  }
  sums.Store(task, row, part.panel, part.end == task.panels->num_blocks());
}

template <PanelCodes kCodes, RowForm kForm, size_t kPanels>
void MultiplyRows(const ProductTask& task, const Part& part) {
  constexpr size_t kTileRows = TileRows(kForm);
  size_t row = task.row_begin;
  if constexpr (kPanels > kTilePanels) {
    return MultiplyTile<kCodes, kForm, 1, kPanels>(task, part, row);
  }
  for (; row + kTileRows <= task.row_end; row += kTileRows) {
    MultiplyTile<kCodes, kForm, kTileRows, kPanels>(task, part, row);
  }
  if constexpr (kTileRows > 4) {
    for (; row + 4 <= task.row_end; row += 4) {
      MultiplyTile<kCodes, kForm, 4, kPanels>(task, part, row);
    }
  }
  for (; row + 2 <= task.row_end; row += 2) {
    MultiplyTile<kCodes, kForm, 2, kPanels>(task, part, row);
  }
  if (row < task.row_end) MultiplyTile<kCodes, kForm, 1, kPanels>(task, part, row);
}

template <PanelCodes kCodes>
Part PartOf(const ProductPanels& panels, size_t panel, size_t begin, size_t end) {
  return {panel,
          begin,
          end,
          {panels.codes(panel) + begin * panels.block_bytes(),
           panels.num_blocks() * panels.block_bytes(), panels.block_bytes(),
           panels.doubled(panel) + begin * panels.doubled_block_bytes(),
           panels.num_blocks() * panels.doubled_block_bytes(), panels.doubled_block_bytes(),
           panels.units(panel) + begin * kPanelColumns, panels.num_blocks() * kPanelColumns},
          nullptr};
}

// Multiplies the rows of a task with kPanels panels. For many rows codes of few bits and those that
// become words are decoded once, and for several rows of floats always, in pieces that stay in the
// cache.
template <PanelCodes kCodes, RowForm kForm, size_t kPanels>
void MultiplyPanels(const ProductTask& task, size_t panel, std::vector<uint8_t>& buffer) {
  const ProductPanels& panels = *task.panels;
  const size_t depth = panels.padded_block(), num_blocks = panels.num_blocks();
  constexpr bool kIsFloat = kForm == RowForm::kFloats;
  constexpr bool kIsWord = kForm == RowForm::kWords;
  constexpr size_t kTileRows = TileRows(kForm);
  constexpr bool kIsWidened =
      kIsWord || (!kIsFloat && (kCodes == PanelCodes::kFour || kCodes == PanelCodes::kSix));
  const size_t num_rows = task.row_end - task.row_begin;
  const bool is_decoded = kIsFloat ? num_rows > 1 : kIsWidened && num_rows > kTileRows;
  const size_t block_bytes = depth * kPanelColumns * BytesOf(kForm);
  // Pieces of equal size.
  const size_t most =
      std::max<size_t>(1, kDecodedBytes / std::max<size_t>(1, block_bytes * kPanels));
  const size_t pieces = std::max<size_t>(1, (num_blocks + most - 1) / most);
  size_t step = std::max<size_t>(1, (num_blocks + pieces - 1) / pieces);
  if (kIsFloat) step = RoundUp(step, panels.blocks_of_part());
  if (num_rows <= (kIsFloat ? 1 : kTileRows)) step = std::max<size_t>(1, num_blocks);
  if (is_decoded) buffer.resize(std::min(step, num_blocks) * block_bytes * kPanels);
  for (size_t begin = 0; begin == 0 || begin < num_blocks; begin += step) {
    Part part = PartOf<kCodes>(panels, panel, begin, std::min(begin + step, num_blocks));
    const size_t count = part.end - part.begin;
    for (size_t p = 0; p < kPanels && is_decoded; ++p) {
      for (size_t b = 0; b < count; ++b) {
        const uint8_t* const codes =
            part.tile.codes + p * part.tile.panel_bytes + b * part.tile.block_bytes;
        const uint8_t* const doubled = part.tile.doubled + p * part.tile.doubled_panel_bytes +
                                       b * part.tile.doubled_block_bytes;
        uint8_t* const to = buffer.data() + (p * count + b) * block_bytes;
        if constexpr (kIsFloat) {
          const uint8_t* const units =
              part.tile.units + p * part.tile.units_panel_bytes + b * kPanelColumns;
          DecodeBlock<kCodes>(panels, codes, doubled, units, reinterpret_cast<float*>(to));
        } else if constexpr (kIsWord) {
          WidenBlockToWords<kCodes>(panels, codes, doubled, to);
        } else if constexpr (kIsWidened) {
          WidenBlock<kCodes>(panels, codes, to);
        }
      }
    }
    if (kIsFloat && is_decoded) part.decoded = reinterpret_cast<const float*>(buffer.data());
    if (kIsWidened && is_decoded) {
      part.tile.codes = buffer.data();
      part.tile.block_bytes = block_bytes;
      part.tile.panel_bytes = count * block_bytes;
      MultiplyRows<kIsWord ? kWideCodes : PanelCodes::kEight, kForm, kPanels>(task, part);
    } else {
      MultiplyRows<kCodes, kForm, kPanels>(task, part);
    }
  }
}

template <PanelCodes kCodes, RowForm kForm>
void MultiplyPart(const ProductTask& task) {
  std::vector<uint8_t> buffer;
  size_t panel = task.panel_begin;
  constexpr size_t kRowPanels = RowPanels(kCodes, kForm);
  if constexpr (kRowPanels > kTilePanels) {
    const bool is_one_row = task.row_end - task.row_begin == 1;
    for (; is_one_row && panel + kRowPanels <= task.panel_end; panel += kRowPanels) {
      MultiplyPanels<kCodes, kForm, kRowPanels>(task, panel, buffer);
    }
  }
  for (; panel + kTilePanels <= task.panel_end; panel += kTilePanels) {
    MultiplyPanels<kCodes, kForm, kTilePanels>(task, panel, buffer);
  }
  for (; kTilePanels > 1 && panel < task.panel_end; ++panel) {
    MultiplyPanels<kCodes, kForm, 1>(task, panel, buffer);
  }
}

template <PanelCodes kCodes>
void MultiplyWhole(const ProductTask& task) {
  if (task.rows->form() == RowForm::kFloats) {
    MultiplyPart<kCodes, RowForm::kFloats>(task);
  } else if constexpr (kCodes == PanelCodes::kNine) {
    MultiplyPart<kCodes, RowForm::kWords>(task);
  } else if (task.rows->form() == RowForm::kWords) {
    MultiplyPart<kCodes, RowForm::kWords>(task);
  } else {
    MultiplyPart<kCodes, RowForm::kBytes>(task);
  }
}

void Multiply(const ProductTask& task) {
  switch (task.panels->codes_kind()) {
    case PanelCodes::kFour:
      return MultiplyWhole<PanelCodes::kFour>(task);
    case PanelCodes::kSix:
      return MultiplyWhole<PanelCodes::kSix>(task);
    case PanelCodes::kEight:
      return MultiplyWhole<PanelCodes::kEight>(task);
    case PanelCodes::kNine:
      return MultiplyWhole<PanelCodes::kNine>(task);
    case PanelCodes::kE4M3:
      return MultiplyPart<PanelCodes::kE4M3, RowForm::kFloats>(task);
    case PanelCodes::kE5M2:
      return MultiplyPart<PanelCodes::kE5M2, RowForm::kFloats>(task);
    case PanelCodes::kBfloat16:
      return MultiplyPart<PanelCodes::kBfloat16, RowForm::kFloats>(task);
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_BLOCK_PRODUCTS_INL_H_
