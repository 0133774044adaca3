// Columns of quantized values as whole elements and units, many columns at a time. Internal to the
// kernels of convolutions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/block_units.h"

namespace bitpress::kernels {

// The elements in a piece of 32 bits, the lowest first.
//   kBytes   four numbers, as unsigned bytes that are `offset` above them
//   kWords   two numbers, as signed words
enum class ColumnForm { kBytes, kWords };

inline size_t ElementsOfPiece(ColumnForm form) { return form == ColumnForm::kBytes ? 4 : 2; }

// Where the elements and units of one block of neighbouring columns go. There is room for columns
// that fill up the last 16.
struct ColumnCodes {
  size_t pieces = 0;  // of a column; elements behind the block's are zeros
  ColumnForm form = ColumnForm::kBytes;
  int offset = 0;
  uint8_t* codes = nullptr;  // piece p of column c at codes + p * code_stride + 4 * c
  size_t code_stride = 0;
  uint8_t* units = nullptr;  // a byte for each column
  // Set if a unit is above kLargestQuickUnit (whole_block.h), and not that of NaN.
  std::atomic<bool>* has_large_unit = nullptr;
};

// Takes columns apart whose element k of column c is values[k * stride + c]. REQUIRES: there are as
// many elements as fill the pieces, and columns is a multiple of 16.
void TakeColumns(const formats::BlockUnits& rule, const float* values, size_t stride,
                 size_t columns, const ColumnCodes& out);

}  // namespace bitpress::kernels
