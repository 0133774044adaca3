// The form in which columns of quantized values are whole elements and units, many columns at a
// time. Internal to the kernels of convolutions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/tile_convolution_units.h"
#include "kernels/tile_rows.h"

namespace bitpress::kernels {

// The elements in a piece of 32 bits, the lowest first.
//   kBytes   four numbers, as codes (byte_codes.h) that are `offset` above them
//   kWords   two numbers, as signed words
//   kTiles   two values, as bfloat16 (tile_rows.h)
//   kPairs   the same, but of each four 2 and 0, then 3 and 1
enum class ColumnForm { kBytes, kWords, kTiles, kPairs };

constexpr bool IsInTiles(ColumnForm form) {
  return form == ColumnForm::kTiles || form == ColumnForm::kPairs;
}

// Returns which half of a column's pieces in tiles has element k.
constexpr size_t HalfOf(ColumnForm form, size_t k) {
  return form == ColumnForm::kPairs ? k / 4 * 4 + kHalfOfPairs[k % 4] : k;
}
// Returns the element of the lower half of a piece; that of the other is the next, or for pairs the
// second before.
constexpr size_t LowerOf(ColumnForm form, size_t piece) {
  return form == ColumnForm::kPairs ? piece / 2 * 4 + piece % 2 + 2 : 2 * piece;
}
constexpr size_t UpperOf(ColumnForm form, size_t piece) {
  return form == ColumnForm::kPairs ? LowerOf(form, piece) - 2 : LowerOf(form, piece) + 1;
}

constexpr size_t ElementsOfPiece(ColumnForm form) { return form == ColumnForm::kBytes ? 4 : 2; }

// This says where the elements and units of one block of neighbouring columns go. There is room for
// columns that fill up the last 16.
struct ColumnCodes {
  size_t pieces = 0;  // of a column; elements behind the block's are zeros
  ColumnForm form = ColumnForm::kBytes;
  int offset = 0;
  uint8_t* codes = nullptr;  // piece p of column c at codes + p * code_stride + 4 * c
  size_t code_stride = 0;
  uint8_t* units = nullptr;  // a byte for each column
  // Set if a unit is above kLargestQuickUnit (whole_block.h), and not that of NaN, or outside of
  // what tiles take.
  std::atomic<bool>* has_large_unit = nullptr;
  uint8_t least_tile_column = kLeastTileColumn;
};

// Returns the piece of ElementsOfPiece(form) numbers. REQUIRES: IsInTiles(form) is false.
inline int32_t PieceOf(ColumnForm form, const int16_t* numbers, int offset) {
  const size_t count = ElementsOfPiece(form), bits = 32 / count;
  const uint32_t mask = form == ColumnForm::kBytes ? 0xFFU : 0xFFFFU;
  uint32_t piece = 0;
  for (size_t i = 0; i < count; ++i) {
    piece |= (static_cast<uint32_t>(numbers[i] + offset) & mask) << i * bits;
  }
  return static_cast<int32_t>(piece);
}

}  // namespace bitpress::kernels
