#include "finetune/cholesky.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/row_products.h"

namespace bitpress::finetune {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

// Columns that are factored together, before the rest of the matrix is brought up to date.
constexpr int64_t kBlock = 128;
// Rows of one task.
constexpr int64_t kTileRows = 64;
static_assert(kBlock % kernels::kRowProductStep == 0);

bool FactorWhole(Map matrix) {
  return Eigen::LLT<Eigen::Ref<Matrix, 0, Eigen::OuterStride<>>>(matrix).info() == Eigen::Success;
}

// Solves X L' = A in place, for rows X below the factored block L of `size` columns.
void SolveRows(const double* factor, double* rows, int64_t num_rows, int64_t size, int64_t stride) {
  for (int64_t row = 0; row < num_rows; ++row) {
    double* const x = rows + row * stride;
    for (int64_t j = 0; j < size; ++j) {
      const double* const of_column = factor + j * stride;
      double sum = 0;
      for (int64_t k = 0; k < j; ++k) sum += x[k] * of_column[k];
      x[j] = (x[j] - sum) / of_column[j];
    }
  }
}

}  // namespace

bool FactorExactly(std::span<double> matrix, int64_t columns) {
  return FactorWhole(Map(matrix.data(), columns, columns, Eigen::OuterStride<>(columns)));
}

bool FactorInPlace(std::span<double> matrix, int64_t columns, ThreadPool& pool) {
  BITPRESS_DCHECK(std::ssize(matrix) == columns * columns);
  const auto block_at = [&](int64_t row, int64_t column, int64_t num_rows, int64_t num_columns) {
    return Map(matrix.data() + row * columns + column, num_rows, num_columns,
               Eigen::OuterStride<>(columns));
  };
  if (columns <= 2 * kBlock) return FactorExactly(matrix, columns);
  std::vector<float> solved(static_cast<size_t>(columns * kBlock));  // the rows below the block
  std::vector<float> negative(solved.size());
  for (int64_t begin = 0; begin < columns; begin += kBlock) {
    const int64_t size = std::min(kBlock, columns - begin);
    if (!FactorWhole(block_at(begin, begin, size, size))) return false;
    const int64_t below = begin + size;
    const int64_t num_below = columns - below;
    const auto num_tasks = static_cast<size_t>((num_below + kTileRows - 1) / kTileRows);
    const double* const factor = matrix.data() + begin * columns + begin;
    pool.ParallelFor(num_tasks, [&](size_t task) {
      const int64_t first = static_cast<int64_t>(task) * kTileRows;
      const int64_t count = std::min(kTileRows, num_below - first);
      double* const rows = matrix.data() + (below + first) * columns + begin;
      SolveRows(factor, rows, count, size, columns);
      for (int64_t row = 0; row < count; ++row) {
        for (int64_t k = 0; k < kBlock; ++k) {
          const auto at = static_cast<size_t>((first + row) * kBlock + k);
          solved[at] = static_cast<float>(rows[row * columns + k]);
          negative[at] = -solved[at];
        }
      }
    });
    pool.ParallelFor(num_tasks, [&](size_t task) {
      // The longest rows of the triangle come first, so that threads end at about the same time.
      const int64_t first = static_cast<int64_t>(num_tasks - 1 - task) * kTileRows;
      const auto count = static_cast<size_t>(std::min(kTileRows, num_below - first));
      for (int64_t other = 0; other <= first; other += kTileRows) {
        const auto num_others = static_cast<size_t>(std::min(kTileRows, num_below - other));
        kernels::AddRowProducts({negative.data() + first * kBlock, count, kBlock},
                                {solved.data() + other * kBlock, num_others, kBlock}, kBlock,
                                matrix.data() + (below + first) * columns + below + other,
                                static_cast<size_t>(columns));
      }
    });
  }
  return true;
}

}  // namespace bitpress::finetune
