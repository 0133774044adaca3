// The rows of the left matrix of products in blocks, as the kernels of block_products.h read them.
// Internal.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/round_up.h"
#include "formats/block_products.h"
#include "kernels/product_panels.h"
#include "kernels/scratch.h"
#include "kernels/tile_rows.h"

namespace bitpress::kernels {

// The elements of a row.
//   kBytes   whole numbers of 8 bits, for dot products of bytes
//   kWords   whole numbers of 16 bits; of every four elements 0, 2, 1, 3
//   kFloats  float32, quantized or not
//   kTiles   bfloat16, elements times units, or floats (tile_rows.h)
//   kPairs   the same of floats, but of every four elements 2, 0, 3, 1
//   kTerms   bfloat16, the terms of a float (formats/block_products.h): the first alone if the rows
//            have a format, as the others are zeros then
enum class RowForm { kBytes, kWords, kFloats, kTiles, kPairs, kTerms };

inline size_t BytesOf(RowForm form) {
  return form == RowForm::kBytes ? 1 : form == RowForm::kFloats ? 4 : 2;
}

// Rows with whole blocks: each block is filled up with zeros as the panels have it.
class ProductRows {
 public:
  // The rows of a product with these panels. Row i begins at a + i * stride and has the summed
  // elements one after another. Rows of floats whose blocks need no filling up are read where they
  // are.
  ProductRows(const ProductPanels& panels, const std::optional<formats::FormatSpec>& format,
              RowForm form, const float* a, size_t num_rows, size_t stride);

  // Tasks of some ten microseconds each, independent of each other. There may be none.
  size_t num_tasks() const { return num_tasks_; }
  // Takes the rows of one task apart.
  void RunTask(size_t task);

  RowForm form() const { return form_; }
  bool are_in_tiles() const {
    return form_ == RowForm::kTiles || form_ == RowForm::kPairs || form_ == RowForm::kTerms;
  }
  size_t num_rows() const { return num_rows_; }
  size_t num_blocks() const { return num_blocks_; }
  // Returns whether there is one row of floats, all of which are zeros or within 2^-80 and 2^40.
  bool has_close_floats() const { return has_close_floats_; }
  const uint8_t* elements(size_t row) const {
    return is_direct_ ? reinterpret_cast<const uint8_t*>(a_ + row * stride_)
                      : bytes() + row * row_bytes();
  }
  // Return the units of the blocks of a row, and the bits from which sums of bytes and words are
  // counted: those of kWholeStart less what the offset of the columns' codes adds.
  // Those of tiles have neither.
  const float* units(size_t row) const { return units_.data() + row * num_blocks_; }
  const int32_t* starts(size_t row) const { return starts_.data() + row * num_blocks_; }

  // Returns a block of kTileRows rows from `row` on, a multiple of it: a tile of each kTileDepth
  // elements, if there are so many. Rows behind the last are zeros.
  const uint16_t* tiles(size_t row, size_t block) const { return Tiles(row, block); }
  // The terms that are stored of each element: all or the first, 1 in other forms.
  size_t num_terms() const { return num_terms_; }
  // Returns kTileRows rows in terms from `row` on, a multiple of it: a tile of kTileDepth elements
  // for each term, and those of the next elements behind them.
  const uint16_t* terms(size_t row, size_t tile) const { return Terms(row, tile); }
  // Returns whether tiles take all units or all floats (tile_rows.h), or terms suit all rows, after
  // all tasks ran.
  bool fit_tiles() const { return fit_tiles_.load(std::memory_order_relaxed); }

 private:
  uint8_t* bytes() const { return elements_->data<uint8_t>(); }
  size_t row_elements() const {
    const size_t count = num_blocks_ * padded_block_;
    return form_ == RowForm::kTerms ? RoundUp(count, kTileDepth) : count;
  }
  size_t row_bytes() const { return row_elements() * num_terms_ * BytesOf(form_); }
  uint16_t* Tiles(size_t row, size_t block) const {
    return reinterpret_cast<uint16_t*>(bytes()) +
           (row * num_blocks_ + kTileRows * block) * padded_block_;
  }
  uint16_t* Terms(size_t row, size_t tile) const {
    return reinterpret_cast<uint16_t*>(bytes()) +
           (row * row_elements() + kTileRows * kTileDepth * tile) * num_terms_;
  }
  void CopyRow(size_t row, const float* values);
  void TakeRow(size_t row, const float* values);
  void TakeTileRow(size_t row, const float* values);
  void TakeTermsOfRow(size_t row, const float* values);

  // Calls function(block, values) for the blocks of a row, each filled up with zeros.
  template <class Function>
  void ForEachPaddedBlock(const float* values, const Function& function) const;

  // Calls function(block, begin, count) for the blocks of a row.
  template <class Function>
  void ForEachBlock(Function&& function) const {
    const auto length = static_cast<size_t>(summed_.length);
    for (size_t block = 0; block < num_blocks_; ++block) {
      const size_t within = block % blocks_per_segment_ * block_;
      function(block, block / blocks_per_segment_ * length + within,
               std::min(block_, length - within));
    }
  }

  std::optional<formats::BlockUnits> rule_;  // of whole rows
  RowForm form_;
  size_t num_terms_;
  formats::SummedShape summed_;
  const float* a_;
  size_t num_rows_, stride_;
  size_t rows_per_task_ = 1, num_tasks_ = 0;
  size_t block_, padded_block_, num_blocks_, blocks_per_segment_;
  int offset_;
  bool is_direct_, has_close_floats_ = false;
  std::atomic<bool> fit_tiles_{true};
  std::optional<Scratch> elements_;  // every byte is written by a task
  std::vector<float> units_;
  std::vector<int32_t> starts_;
};

}  // namespace bitpress::kernels
