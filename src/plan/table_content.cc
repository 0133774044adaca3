#include "plan/table_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "formats/reference.h"

namespace bitpress::plan {
namespace {

// A table as [rows, columns].
class Table {
 public:
  explicit Table(const graph::InitializerView& table)
      : bytes_(table.bytes),
        is_half_(table.type == DataType::kFloat16),
        num_rows_(table.dims[0]),
        num_columns_(NumElements(table.dims) / table.dims[0]) {}

  int64_t num_rows() const { return num_rows_; }
  int64_t num_columns() const { return num_columns_; }
  int64_t size() const { return num_rows_ * num_columns_; }

  double At(int64_t index) const {
    if (is_half_) {
      return formats::ref::DecodeFloat(Number<uint16_t>(index), formats::ElementType::kFloat16);
    }
    return Number<float>(index);
  }
  double At(int64_t row, int64_t column) const { return At(row * num_columns_ + column); }

 private:
  // Data of a file need not be aligned.
  template <typename T>
  T Number(int64_t index) const {
    T number;
    std::memcpy(&number, bytes_.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
    return number;
  }

  std::span<const std::byte> bytes_;
  bool is_half_;
  int64_t num_rows_;
  int64_t num_columns_;
};

// Returns the cosine of the angle by which a wave goes on from row to row; nothing if the column is
// no wave. Every wave a * cos(p * angle + b) has T[p + 1] + T[p - 1] = 2 * cos(angle) * T[p].
std::optional<double> WaveOf(const Table& table, int64_t column, int64_t num_rows) {
  // Half floats are off by 2^-11 of a value, and three of them are added.
  constexpr double kTolerance = 0.01;
  double products = 0;
  double squares = 0;
  double largest = 0;
  for (int64_t row = 1; row + 1 < num_rows; ++row) {
    const double here = table.At(row, column);
    const double around = table.At(row - 1, column) + table.At(row + 1, column);
    products += around * here;
    squares += here * here;
    largest = std::max({largest, std::abs(here), std::abs(around)});
  }
  const double cosine = squares == 0 ? 1 : products / (2 * squares);
  for (int64_t row = 1; row + 1 < num_rows; ++row) {
    const double around = table.At(row - 1, column) + table.At(row + 1, column);
    const double error = around - 2 * cosine * table.At(row, column);
    if (!(std::abs(error) <= kTolerance * largest)) return std::nullopt;
  }
  return cosine;
}

bool IsOfWaves(const Table& table) {
  constexpr int64_t kFewestRows = 8;  // fewer rows may look like waves by chance
  constexpr int64_t kMostRows = 256;
  // The cosine of a straight line is 1. Some column must turn.
  constexpr double kTurning = 0.9999;
  if (table.num_rows() < kFewestRows) return false;
  bool turns = false;
  for (int64_t column = 0; column < table.num_columns(); ++column) {
    const auto cosine = WaveOf(table, column, std::min(table.num_rows(), kMostRows));
    if (!cosine) return false;
    turns = turns || *cosine < kTurning;
  }
  return turns;
}

}  // namespace

std::string WhyTableStaysFloat(const graph::InitializerView& view) {
  constexpr int64_t kMostCoordinates = 4;
  const Table table(view);
  if (table.num_columns() <= kMostCoordinates) {
    return fmt::format("its rows are {} numbers, as of points and boxes: it is no embedding",
                       table.num_columns());
  }
  for (int64_t i = 0; i < table.size(); ++i) {
    const double value = table.At(i);
    if (std::isfinite(value)) continue;
    const std::string_view what = std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
    return fmt::format("it holds {} in row {}, which no code means", what, i / table.num_columns());
  }
  if (IsOfWaves(table)) return "its columns are waves, for rotary positions: it is no embedding";
  return "";
}

}  // namespace bitpress::plan
