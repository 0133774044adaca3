#include "finetune/sum_matrix.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/digit_sums.h"

namespace bitpress::finetune {
namespace {

int64_t TilesOf(int64_t count) { return (count + SumMatrix::kTile - 1) / SumMatrix::kTile; }

size_t PaddedWidth(int64_t columns, int64_t tile) {
  constexpr auto kStep = static_cast<int64_t>(kernels::kDigitStep);
  const int64_t count = std::min(SumMatrix::kTile, columns - tile * SumMatrix::kTile);
  return static_cast<size_t>((count + kStep - 1) / kStep * kStep);
}

// Calls `function(tiles, width)` for each row of a group: its tiles, and the sums in all of them.
template <typename Function>
void ForEachRow(const MatrixShape& shape, const Function& function) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t tiles = shape.is_symmetric ? row / SumMatrix::kTile + 1 : TilesOf(shape.columns);
    const size_t width = tiles == 0 ? 0
                                    : static_cast<size_t>((tiles - 1) * SumMatrix::kTile) +
                                          PaddedWidth(shape.columns, tiles - 1);
    function(static_cast<size_t>(tiles), width);
  }
}

template <typename T>
void Shift(T* digits, size_t width, size_t by) {
  for (size_t d = kNumDigits; d-- > 0;) {
    for (size_t k = 0; k < width; ++k) {
      digits[d * width + k] = d >= by ? digits[(d - by) * width + k] : T{};
    }
  }
}

}  // namespace

SumMatrix::SumMatrix(const MatrixShape& shape, ArrayPlace place) : shape_(shape), place_(place) {
  size_t digits = 0;
  size_t tiles = 0;
  ForEachRow(shape, [&](size_t of_row, size_t width) {
    digits_before_.push_back(digits);
    tiles_before_.push_back(tiles);
    digits += kNumDigits * width;
    tiles += of_row;
  });
  digits_before_.push_back(digits);
  tiles_before_.push_back(tiles);
  const auto groups = static_cast<size_t>(shape.groups);
  places_.assign(groups * tiles, kLeastPlace);
  narrow_ = {groups * digits, place};
}

uint64_t SumMatrix::NumBytes(const MatrixShape& shape) {
  uint64_t of_group = 0;
  ForEachRow(shape, [&](size_t tiles, size_t width) {
    of_group += tiles + kNumDigits * sizeof(int32_t) * width;
  });
  return static_cast<uint64_t>(shape.groups) * of_group;
}

uint64_t SumMatrix::LeastBytes(const MatrixShape& shape) {
  uint64_t tiles = 0;
  if (shape.is_symmetric) {
    const auto whole = static_cast<uint64_t>(shape.rows / kTile);
    tiles = static_cast<uint64_t>(kTile) * (whole * (whole + 1) / 2) +
            static_cast<uint64_t>(shape.rows % kTile) * (whole + 1);
  } else {
    tiles = static_cast<uint64_t>(shape.rows) * static_cast<uint64_t>(TilesOf(shape.columns));
  }
  constexpr uint64_t kLeastTileBytes = 2;
  return static_cast<uint64_t>(shape.groups) * tiles * kLeastTileBytes;
}

int64_t SumMatrix::NumTiles(int64_t row_of_group) const {
  const auto row = static_cast<size_t>(row_of_group);
  return static_cast<int64_t>(tiles_before_[row + 1] - tiles_before_[row]);
}

int64_t SumMatrix::NumSums(int64_t row_of_group, int64_t tile) const {
  const int64_t end = shape_.is_symmetric ? row_of_group + 1 : shape_.columns;
  return std::min(kTile, end - tile * kTile);
}

size_t SumMatrix::WidthOf(int64_t tile) const { return PaddedWidth(shape_.columns, tile); }

size_t SumMatrix::PlaceIndex(int64_t row, int64_t tile) const {
  return static_cast<size_t>(row / shape_.rows) * tiles_before_.back() +
         tiles_before_[static_cast<size_t>(row % shape_.rows)] + static_cast<size_t>(tile);
}

size_t SumMatrix::DigitIndex(int64_t row, int64_t tile) const {
  return static_cast<size_t>(row / shape_.rows) * digits_before_.back() +
         digits_before_[static_cast<size_t>(row % shape_.rows)] +
         kNumDigits * static_cast<size_t>(tile * kTile);
}

void SumMatrix::Reserve(uint64_t num_terms) {
  if (num_terms > kMostNarrowTerms - num_narrow_) Widen();
  num_narrow_ = std::min(num_narrow_ + num_terms, kMostNarrowTerms);
}

void SumMatrix::Widen() {
  if (wide_.size() == 0) wide_ = {narrow_.size(), place_};
  for (size_t i = 0; i < narrow_.size(); ++i) {
    wide_.data()[i] += narrow_.data()[i];
    narrow_.data()[i] = 0;
  }
  num_narrow_ = 0;
}

SumMatrix::TileRow SumMatrix::At(int64_t row, int64_t tile) {
  const size_t begin = DigitIndex(row, tile);
  return {&places_[PlaceIndex(row, tile)], narrow_.data() + begin,
          wide_.size() > 0 ? wide_.data() + begin : nullptr, WidthOf(tile)};
}

void SumMatrix::Raise(const TileRow& tile, int to) {
  if (to <= *tile.place) return;
  const auto by = static_cast<size_t>(to - *tile.place);
  Shift(tile.narrow, tile.width, by);
  if (tile.wide != nullptr) Shift(tile.wide, tile.width, by);
  *tile.place = static_cast<int8_t>(to);
}

void SumMatrix::AddTerms(const TileRow& to, const float* terms) {
  if (kernels::AddDigits(terms, to.width, *to.place, to.narrow)) return;
  Raise(to, PlaceOf(kernels::LargestOf(terms, to.width)));
  kernels::AddDigits(terms, to.width, *to.place, to.narrow);
}

DigitSums SumMatrix::Get(int64_t row, int64_t tile) const {
  DigitSums sums;
  sums.place = places_[PlaceIndex(row, tile)];
  sums.size = static_cast<size_t>(NumSums(row % shape_.rows, tile));
  const size_t width = WidthOf(tile);
  const size_t begin = DigitIndex(row, tile);
  for (size_t d = 0; d < kNumDigits; ++d) {
    for (size_t k = 0; k < sums.size; ++k) {
      const size_t at = begin + d * width + k;
      sums.digits[d][k] = narrow_.data()[at];
      if (wide_.size() > 0) sums.digits[d][k] += wide_.data()[at];
    }
  }
  return sums;
}

void SumMatrix::Add(const TileRow& to, const StoredDigits& sums) {
  Raise(to, sums.place());
  const auto by = static_cast<size_t>(*to.place - sums.place());
  for (size_t d = by; d < kNumDigits; ++d) {
    if (to.wide != nullptr) {
      sums.AddTo(d - by, to.wide + d * to.width);
    } else {
      sums.AddTo(d - by, to.narrow + d * to.width);
    }
  }
}

void SumMatrix::ToDoubles(double* out) const {
  const int64_t columns = shape_.columns;
  for (int64_t row = 0; row < shape_.groups * shape_.rows; ++row) {
    const int64_t row_of_group = row % shape_.rows;
    double* const group = out + (row - row_of_group) * columns;
    for (int64_t tile = 0; tile < NumTiles(row_of_group); ++tile) {
      const DigitSums sums = Get(row, tile);
      for (size_t k = 0; k < sums.size; ++k) {
        const int64_t column = tile * kTile + static_cast<int64_t>(k);
        const double value = sums.Value(k);
        group[row_of_group * columns + column] = value;
        if (shape_.is_symmetric) group[column * columns + row_of_group] = value;
      }
    }
  }
}

void SumMatrix::Write(ByteWriter& out) const {
  for (int64_t row = 0; row < shape_.groups * shape_.rows; ++row) {
    for (int64_t tile = 0; tile < NumTiles(row % shape_.rows); ++tile) Get(row, tile).Write(out);
  }
}

void SumMatrix::AddFrom(ByteReader& in, uint64_t num_terms, ThreadPool& pool) {
  Reserve(num_terms);
  // The bytes of a tile tell where the next one begins. So this thread looks for the starts of some
  // rows at a time, which tasks read and add.
  constexpr int64_t kRowsOfTask = 32;
  const int64_t num_rows = shape_.groups * shape_.rows;
  const auto for_each_tile = [&](int64_t first_row, ByteReader& from, const auto& function) {
    for (int64_t row = first_row; row < std::min(first_row + kRowsOfTask, num_rows); ++row) {
      const int64_t row_of_group = row % shape_.rows;
      for (int64_t tile = 0; tile < NumTiles(row_of_group); ++tile) {
        const auto size = static_cast<size_t>(NumSums(row_of_group, tile));
        function(row, tile, StoredDigits(from, size));
      }
    }
  };
  std::vector<ByteReader> starts;
  for (int64_t row = 0; row < num_rows; row += kRowsOfTask) {
    starts.push_back(in);
    for_each_tile(row, in, [](int64_t, int64_t, const StoredDigits&) {});
  }
  pool.ParallelFor(starts.size(), [&](size_t task) {
    const auto add = [&](int64_t row, int64_t tile, const StoredDigits& sums) {
      sums.Check(num_terms);
      Add(At(row, tile), sums);
    };
    for_each_tile(static_cast<int64_t>(task) * kRowsOfTask, starts[task], add);
  });
}

void SumMatrix::Release() const {
  narrow_.Release();
  wide_.Release();
}

}  // namespace bitpress::finetune
