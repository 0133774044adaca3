// Takes columns of quantized values apart into whole elements and units, many columns at a time.
// Internal to the kernels of convolutions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/block_units.h"

namespace bitpress::kernels {

// The elements in a piece of 32 bits, the lowest first.
//   kBytes   four numbers, as unsigned bytes that are `offset` above them
//   kWords   two numbers, as signed words
enum class ColumnForm { kBytes, kWords };

inline size_t ElementsOfPiece(ColumnForm form) { return form == ColumnForm::kBytes ? 4 : 2; }

// One block of neighbouring columns.
struct ColumnBlock {
  const float* values = nullptr;  // element k of column c at values[k * stride + c]
  size_t stride = 0;
  size_t columns = 0;  // a multiple of 16
  size_t pieces = 0;   // of a column; there are as many elements as fill them
  ColumnForm form = ColumnForm::kBytes;
  int offset = 0;
  uint8_t* codes = nullptr;  // piece p of column c at codes + p * code_stride + 4 * c
  size_t code_stride = 0;
  uint8_t* units = nullptr;  // a byte for each column
};

void TakeColumns(const formats::BlockUnits& rule, const ColumnBlock& block);

}  // namespace bitpress::kernels
