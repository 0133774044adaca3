// A weight as a file of quantized weights holds it: its codes, the scales of its blocks, and what
// its blocks are moved by. Every kind of file is read into this form, in which rows can be joined
// and reordered without touching a code. Plain data; pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/qparams.h"

namespace bitpress::interop {

// A matrix [outputs, inputs], or a vector of one row. The element of a code is scale * (code -
// zero point) + offset, with the numbers of its block; blocks lie along the rows.
struct FileWeight {
  std::string type;  // as the file's format calls it, such as "Q4_K"
  // One of ours: an integer type, "mxfp4_e2m1", whose codes count halves, or "none": floats.
  std::string format = "none";
  int64_t num_rows = 1;
  int64_t row_length = 0;
  int64_t block_size = 0;
  std::vector<int16_t> codes = {};        // [num_rows, row_length]
  std::vector<float> scales = {};         // [num_rows, num_blocks]
  std::vector<int16_t> zero_points = {};  // likewise; empty: 0
  std::vector<float> offsets = {};        // likewise; empty: 0
  std::vector<float> floats = {};         // [num_rows, row_length] of format "none", else empty
  // The input that each column multiplies, where groups of columns are no neighbours; empty: its
  // own. Floats are in the order of the inputs.
  std::vector<int64_t> order = {};
  // Why its codes cannot be kept, so that its values are rounded anew; "" if they can.
  std::string why_rounded = {};

  int64_t num_blocks() const { return block_size > 0 ? (row_length - 1) / block_size + 1 : 0; }
  bool is_float() const { return format == "none"; }
  int64_t InputOf(int64_t column) const {
    return order.empty() ? column : order[static_cast<size_t>(column)];
  }
  // Returns the elements of a row without their offsets, and what each block is moved by.
  void DecodeRow(int64_t row, std::span<float> values) const;
  // Adds the offsets to such a row.
  void AddOffsets(int64_t row, std::span<float> values) const;
  // Returns scale and zero point of a block. A scale of 0, whose elements are all 0, is 1.
  formats::QParams Params(int64_t row, int64_t block) const;
};

// Cuts blocks into smaller ones with the same scale. REQUIRES: block_size divides
// weight.block_size, or the weight has one block in a row and block_size divides that.
void CutBlocks(FileWeight& weight, int64_t block_size);

// Returns the rows in another order: row i of the result is order[i].
FileWeight WithRows(const FileWeight& weight, std::span<const int64_t> order);

// Returns the rows of several weights below each other, in a format that holds all their codes.
// Weights whose codes no format holds together become floats, and `why_rounded` says so. REQUIRES:
// there is one, and all rows are equally long.
FileWeight JoinRows(std::vector<FileWeight> parts);

// The elements of FLOAT4E2M1 in halves, by their four bits.
inline constexpr std::array<int16_t, 16> kE2M1Halves = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

// Return the exact values of 16-bit floats.
float FloatOfHalf(uint16_t half);
float FloatOfBfloat16(uint16_t bits);
// Returns the elements of little-endian "F32", "F16" or "BF16", as many as the bytes hold.
std::vector<float> FloatsOf(std::string_view type, std::span<const std::byte> bytes);

}  // namespace bitpress::interop
