// The right matrix of products in blocks, arranged for the kernels of block_products.h: panels of
// 16 columns, whose codes and units lie in the order in which a kernel reads them. It is made once
// from the codes of a packed tensor and holds about as many bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_pages.h"
#include "base/thread_pool.h"
#include "formats/block_products.h"
#include "formats/block_units.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::kernels {

// The columns of a panel: one vector of 512 bits has a number of 32 bits for each.
inline constexpr size_t kPanelColumns = 16;

// The codes of an element in a panel. A group of `depth` elements of each column lies in one piece:
//   kFour    8 elements: byte j of a column has element j in its low half and 4 + j in the high
//   one.
//            Codes are indices of a table.
//   kSix     16 elements: two such groups of the low four bits, and then a byte j of a column with
//            the upper two bits of the elements j, 4 + j, 8 + j and 12 + j, the first lowest.
//   kEight   4 elements, a byte each.
//   kNine    4 elements, a signed byte each. Pairs of elements have a bit that doubles them.
//   kE4M3, kE5M2   1 element, the byte of an 8-bit float.
//   kBfloat16   2 elements, 16 bits each.
// Codes of four, six and eight bits stand for whole numbers from 0 on; `offset` is that of zero.
enum class PanelCodes { kFour, kSix, kEight, kNine, kE4M3, kE5M2, kBfloat16 };

// The matrix as its tensor has it: [outer, axis, inner], with blocks along the middle dimension.
struct ColumnsView {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;
  // The columns lie along `inner`, and outer is 1. Otherwise they lie along `outer`, and `inner`
  // counts the segments of the summed elements.
  bool are_inner = false;

  int64_t num_columns() const { return are_inner ? inner : outer; }
  formats::SummedShape summed() const { return {are_inner ? 1 : inner, axis}; }
};

class ProductPanels {
 public:
  // Takes the parts of a packed tensor. Throws Error(kInvalidArgument) if a part has another size
  // than formats::SizesOf says, or the dimensions do not fit. REQUIRES: formats::WhyNoProduct of
  // the format is empty; view.outer is 1 if view.are_inner.
  ProductPanels(const formats::FormatSpec& spec, const ColumnsView& view,
                const formats::PackedView& packed, ThreadPool& pool);

  PanelCodes codes_kind() const { return kind_; }
  const formats::FormatSpec& spec() const { return spec_; }
  const formats::BlockUnits& rule() const { return rule_; }
  formats::SummedShape summed() const { return summed_; }
  size_t num_columns() const { return num_columns_; }
  size_t num_panels() const { return (num_columns_ + kPanelColumns - 1) / kPanelColumns; }
  // The elements of a block, and with those that fill up its last group, and the blocks of a
  // column.
  size_t block() const { return static_cast<size_t>(formats::BlockOf(spec_)); }
  size_t padded_block() const { return padded_block_; }
  size_t num_blocks() const { return num_blocks_; }
  // The blocks of a part of a sum of floats (formats/block_products.h), 1 for long blocks.
  size_t blocks_of_part() const {
    return static_cast<size_t>(formats::BlocksOfPart(static_cast<int64_t>(block())));
  }
  // The elements of a part with those that fill up its blocks, at least as many as a block has
  // unless blocks are long.
  size_t part_depth() const {
    constexpr size_t kMost = formats::kPartElements;
    return block() > kMost ? kMost : blocks_of_part() * padded_block_;
  }
  size_t blocks_per_segment() const;
  // The code of zero, and the largest code, of four, six and eight bits.
  int offset() const { return offset_; }
  int largest_code() const { return largest_code_; }
  const std::array<uint8_t, 16>& table() const { return table_; }

  // Returns whether a unit is above kLargestQuickUnit (whole_block.h), and not that of NaN.
  bool has_large_unit() const { return has_large_unit_; }
  // Returns whether all units are within 2^-30 and 2^30, and within a factor of 2^30. Products with
  // floats of ProductRows::has_close_floats are then multiples of 2^-149 and below 2^86, as numbers
  // and counted in any of these units: elements are multiples of 2^-16 and below 2^16. So no power
  // of two changes how their sums are rounded. All units are 1 in BF16, and its elements must be
  // multiples of 2^-46 and below 2^46.
  bool has_close_units() const { return has_close_units_; }

  // Return the codes, doubling bits (kNine) and units of a panel, block after block.
  const uint8_t* codes(size_t panel) const { return codes_.data() + panel * CodeBytes(); }
  const uint8_t* doubled(size_t panel) const { return doubled_.data() + panel * DoubledBytes(); }
  const uint8_t* units(size_t panel) const {
    return units_.data() + panel * num_blocks_ * kPanelColumns;
  }
  // Return the bytes of the codes and of the doubling bits of one block of a panel.
  size_t block_bytes() const { return block_bytes_; }
  size_t doubled_block_bytes() const { return kind_ == PanelCodes::kNine ? padded_block_ : 0; }
  size_t num_bytes() const { return codes_.size() + doubled_.size() + units_.size(); }

 private:
  size_t CodeBytes() const { return num_blocks_ * block_bytes_; }
  size_t DoubledBytes() const { return num_blocks_ * doubled_block_bytes(); }
  void ChooseCodes();
  void ClassifyUnits();
  // Writes a block of the columns of a panel. Element k of column c is values[c * column_stride + k
  // * element_stride].
  void WriteColumns(size_t panel, size_t block, const float* values, size_t column_stride,
                    size_t element_stride, size_t length);
  // Writes the whole elements of one column.
  void WriteCodes(size_t panel, size_t block, size_t column, const int16_t* numbers);

  formats::FormatSpec spec_;
  formats::BlockUnits rule_;
  formats::SummedShape summed_;
  PanelCodes kind_ = PanelCodes::kEight;
  size_t num_columns_ = 0;
  size_t padded_block_ = 0;
  size_t num_blocks_ = 0;
  size_t block_bytes_ = 0;
  int offset_ = 0;
  int largest_code_ = 0;
  bool has_large_unit_ = false, has_close_units_ = false;
  std::array<uint8_t, 16> table_{};   // of kFour: the number of each code, from 0 on
  std::array<uint8_t, 256> index_{};  // and the code of each number
  HugePageVector<uint8_t> codes_, doubled_, units_;
};

}  // namespace bitpress::kernels
