// A matrix of sums of products, kept so that they do not depend on the order of the terms
// (base/digit_sums.h): some rows of columns for each of several groups. Symmetric matrices have the
// lower triangle only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_stream.h"
#include "base/digit_sums.h"
#include "base/spillable_array.h"
#include "base/thread_pool.h"

namespace bitpress::finetune {

struct MatrixShape {
  int64_t groups = 0, rows = 0, columns = 0;
  bool is_symmetric = false;  // rows == columns
};

class SumMatrix {
 public:
  // Columns of a tile, whose sums of one row are a DigitSums. Symmetric matrices end with the tile
  // that has the diagonal.
  static constexpr auto kTile = static_cast<int64_t>(kDigitGroup);

  SumMatrix() = default;
  // Throws as SpillableArray does.
  SumMatrix(const MatrixShape& shape, ArrayPlace place);
  static uint64_t NumBytes(const MatrixShape& shape);

  // So many terms more will be added to each sum.
  void Reserve(uint64_t num_terms);
  // The sums of one tile of a row. Valid until Reserve.
  struct TileRow {
    int8_t* place;
    int32_t* narrow;
    int64_t* wide;  // or null
    size_t width;   // sums with padding
  };
  // Returns a tile of a row; rows are counted through all groups.
  TileRow At(int64_t row, int64_t tile);
  // Adds a term to each sum. Rows may belong to different threads. REQUIRES: the terms are finite,
  // kTile of them, with zeros behind the row's last sum; Reserve counted them.
  static void AddTerms(const TileRow& to, const float* terms);

  // Returns the sums as numbers: [groups, rows, columns], with both triangles.
  void ToDoubles(double* out) const;

  // The same sums have the same bytes.
  void Write(ByteWriter& out) const;
  // Adds sums of so many terms that Write gave for a matrix of this shape. Throws
  // Error(kInvalidArgument) if the bytes are damaged.
  void AddFrom(ByteReader& in, uint64_t num_terms, ThreadPool& pool);
  // Returns the least number of bytes that Write gives for a matrix of this shape.
  static uint64_t LeastBytes(const MatrixShape& shape);

  // Gives the memory of spilled sums back until they are used again.
  void Release() const;

 private:
  int64_t NumTiles(int64_t row_of_group) const;
  int64_t NumSums(int64_t row_of_group, int64_t tile) const;
  // The sums of a tile with padding, as they lie in memory.
  size_t WidthOf(int64_t tile) const;
  size_t PlaceIndex(int64_t row, int64_t tile) const;
  size_t DigitIndex(int64_t row, int64_t tile) const;
  DigitSums Get(int64_t row, int64_t tile) const;
  void Add(const TileRow& to, const StoredDigits& sums);
  static void Raise(const TileRow& tile, int to);
  void Widen();

  MatrixShape shape_;
  ArrayPlace place_ = ArrayPlace::kHeap;
  // For each row of a group and the end: digits and tiles before it.
  std::vector<size_t> digits_before_, tiles_before_;
  uint64_t num_narrow_ = 0;         // terms in `narrow_`
  std::vector<int8_t> places_;      // of each tile of each row
  SpillableArray<int32_t> narrow_;  // of each tile of each row: [kNumDigits, width]
  SpillableArray<int64_t> wide_;    // likewise, of terms that narrow_ has no room for; or empty
};

}  // namespace bitpress::finetune
