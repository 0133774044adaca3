#include "finetune/quadratic_form.h"

#include <algorithm>

#include "kernels/row_products.h"

namespace bitpress::finetune {
namespace {

// Rows of the matrix that are multiplied together: they stay in the second-level cache.
constexpr int64_t kMatrixTileRows = 64;
// Rows of errors for which a tile of the matrix is read once.
constexpr int64_t kErrorRowsOfTask = 128;

int64_t RoundUp(int64_t n) {
  constexpr auto kStep = static_cast<int64_t>(kernels::kRowProductStep);
  return (n + kStep - 1) / kStep * kStep;
}

// Computes out[i, j] = a_i b_j' over elements [begin, end) of the rows, all `stride` apart.
void MultiplyRows(const std::vector<float>& a, const std::vector<float>& b, int64_t num_b,
                  int64_t stride, int64_t begin, int64_t end, std::vector<double>& out) {
  std::ranges::fill(out, 0.0);
  constexpr auto kMost = static_cast<int64_t>(kernels::kMostRowProductLength);
  for (int64_t from = begin; from < end; from += kMost) {
    const auto length = static_cast<size_t>(std::min(kMost, end - from));
    kernels::AddRowProducts(
        {a.data() + from, kErrorRowsOfTask, static_cast<size_t>(stride)},
        {b.data() + from, static_cast<size_t>(num_b), static_cast<size_t>(stride)}, length,
        out.data(), kMatrixTileRows);
  }
}

}  // namespace

std::vector<double> QuadraticForms(int64_t columns, const ReadRow& matrix, int64_t num_rows,
                                   const ReadRow& errors, ThreadPool& pool) {
  const int64_t stride = RoundUp(columns);
  std::vector<double> forms(static_cast<size_t>(num_rows));
  pool.ParallelFor(static_cast<size_t>((num_rows + kErrorRowsOfTask - 1) / kErrorRowsOfTask),
                   [&](size_t task) {
                     const int64_t first = static_cast<int64_t>(task) * kErrorRowsOfTask;
                     const int64_t count = std::min(kErrorRowsOfTask, num_rows - first);
                     std::vector<float> rows(static_cast<size_t>(kErrorRowsOfTask * stride));
                     for (int64_t i = 0; i < count; ++i)
                       errors(first + i, columns, rows.data() + i * stride);
                     std::vector<float> tile(static_cast<size_t>(kMatrixTileRows * stride));
                     std::vector<double> below(kErrorRowsOfTask * kMatrixTileRows);
                     std::vector<double> diagonal(kErrorRowsOfTask * kMatrixTileRows);
                     // The matrix is symmetric: what lies left of the diagonal tiles counts twice.
                     for (int64_t begin = 0; begin < columns; begin += kMatrixTileRows) {
                       const int64_t num = std::min(kMatrixTileRows, columns - begin);
                       const int64_t end = RoundUp(begin + num);
                       for (int64_t j = 0; j < num; ++j) {
                         matrix(begin + j, std::min(end, columns), tile.data() + j * stride);
                       }
                       MultiplyRows(rows, tile, num, stride, 0, begin, below);
                       MultiplyRows(rows, tile, num, stride, begin, end, diagonal);
                       for (int64_t i = 0; i < count; ++i) {
                         double sum = 0;
                         for (int64_t j = 0; j < num; ++j) {
                           const auto at = static_cast<size_t>(i * kMatrixTileRows + j);
                           sum += (2 * below[at] + diagonal[at]) *
                                  double{rows[static_cast<size_t>(i * stride + begin + j)]};
                         }
                         forms[static_cast<size_t>(first + i)] += sum;
                       }
                     }
                   });
  return forms;
}

}  // namespace bitpress::finetune
