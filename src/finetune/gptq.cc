// Pass gptq of LayerTuner.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <numeric>

#include "finetune/layer_tuner.h"

namespace bitpress::finetune {
namespace {

// Rows that take each column of the triangle from memory together.
constexpr int64_t kRowsOfTask = 8;

// What a row of the triangle takes over from the rows below it, for each of the weight's rows.
struct Sums {
  double of_row[kRowsOfTask] = {};
};

Sums SumBelow(const double* column, int64_t begin, int64_t end, const std::vector<double>& errors) {
  Sums sums;
  for (int64_t j = begin; j < end; ++j) {
    for (int64_t row = 0; row < kRowsOfTask; ++row) {
      sums.of_row[row] += column[j] * errors[static_cast<size_t>(j * kRowsOfTask + row)];
    }
  }
  return sums;
}

}  // namespace

// The last of the order is rounded first.
std::vector<int64_t> LayerTuner::RoundingOrder(int64_t group) const {
  const double* const hessian = Hessian(group);
  std::vector<int64_t> order(static_cast<size_t>(layer_.columns));
  std::iota(order.begin(), order.end(), 0);
  if (options_.activation_order && !CanRefreshScales()) {
    std::ranges::stable_sort(order, {}, [&](int64_t k) { return hessian[k * layer_.columns + k]; });
  } else {
    std::ranges::reverse(order);
  }
  return order;
}

// Whether scales are to be chosen anew, and no two rows share one and neighbours do.
bool LayerTuner::CanRefreshScales() const {
  if (!options_.refresh_scales || grid_.num_scales() == 0) return false;
  if (grid_.ScaleFactors().size() == 1) return false;  // nothing to choose from
  std::vector<int64_t> row_of(grid_.num_scales(), -1);
  for (int64_t row = 0; row < layer_.groups * layer_.rows; ++row) {
    size_t before = grid_.num_scales();
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const size_t scale =
          grid_.ScaleIndexOf(layer_.ElementOf(row / layer_.rows, row % layer_.rows, k));
      if (scale == before) continue;
      if (row_of[scale] != -1) return false;
      row_of[scale] = row;
      before = scale;
    }
  }
  return true;
}

void LayerTuner::Gptq() {
  RoundToNearest();
  const int64_t columns = layer_.columns;
  const bool refreshes = CanRefreshScales();
  const std::span<const double> factors = grid_.ScaleFactors();
  std::vector<double> factor_of(grid_.num_scales(), 1.0);
  for (int64_t group = 0; group < layer_.groups; ++group) {
    const double* const hessian = Hessian(group);
    const std::vector<int64_t> order = RoundingOrder(group);
    Eigen::MatrixXd ordered(columns, columns);
    for (int64_t i = 0; i < columns; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        ordered(i, j) =
            hessian[order[static_cast<size_t>(i)] * columns + order[static_cast<size_t>(j)]];
      }
    }
    // In place, as matrices of wide layers are large: the lower triangle becomes the factor, and
    // the upper one, which nothing reads, stays. Column-major: column k lies together.
    const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(ordered);
    if (cholesky.info() != Eigen::Success) continue;  // rounded to nearest
    const Eigen::MatrixXd& lower = ordered;
    const int64_t num_tasks = (layer_.rows + kRowsOfTask - 1) / kRowsOfTask;
    pool_.ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task) {
      const int64_t first = static_cast<int64_t>(task) * kRowsOfTask;
      const int64_t count = std::min(kRowsOfTask, layer_.rows - first);
      std::vector<double> errors(static_cast<size_t>(columns * kRowsOfTask));  // [column, row]
      std::vector<double> wanted(errors.size());  // what the weights of a block are when it comes
      const auto element_of = [&](int64_t i, int64_t row) {
        return layer_.ElementOf(group, first + row, order[static_cast<size_t>(i)]);
      };
      const auto target_of = [&](int64_t i, int64_t row) {
        return Target(group, first + row)[order[static_cast<size_t>(i)]];
      };
      // Columns up to i that share their scale with it, in every row the same.
      const auto begin_of_block = [&](int64_t i) {
        const size_t scale = grid_.ScaleIndexOf(element_of(i, 0));
        while (i > 0 && grid_.ScaleIndexOf(element_of(i - 1, 0)) == scale) --i;
        return i;
      };
      const auto refresh = [&](int64_t begin, int64_t end) {
        for (int64_t i = end; i-- > begin;) {
          const double* const column = lower.data() + i * columns;
          const Sums sums = SumBelow(column, i + 1, columns, errors);
          for (int64_t row = 0; row < count; ++row) {
            const auto at = static_cast<size_t>(i * kRowsOfTask + row);
            wanted[at] = target_of(i, row) + sums.of_row[row] / column[i];
            errors[at] = target_of(i, row) - wanted[at];  // if it could be just that
          }
        }
        for (int64_t row = 0; row < count; ++row) {
          double least = -1;
          double& best = factor_of[grid_.ScaleIndexOf(element_of(begin, row))];
          for (const double factor : factors) {
            double loss = 0;
            for (int64_t i = begin; i < end; ++i) {
              const double value = wanted[static_cast<size_t>(i * kRowsOfTask + row)];
              const double error =
                  (double{grid_.RoundScaled(element_of(i, row), value, factor)} - value) *
                  lower(i, i);
              loss += error * error;
            }
            if (least >= 0 && loss >= least) continue;
            least = loss;
            best = factor;
          }
        }
      };
      int64_t block = columns;
      for (int64_t i = columns; i-- > 0;) {
        if (refreshes && i < block) {
          block = begin_of_block(i);
          refresh(block, i + 1);
        }
        const double* const column = lower.data() + i * columns;
        const Sums sums = SumBelow(column, i + 1, columns, errors);
        for (int64_t row = 0; row < count; ++row) {
          const size_t element = element_of(i, row);
          const double target = target_of(i, row);
          const double value = target + sums.of_row[row] / column[i];
          // Neighbours that are still to come have the value that they are rounded to nearest to.
          quantized_[element] =
              refreshes ? grid_.RoundScaled(element, value, factor_of[grid_.ScaleIndexOf(element)])
                        : grid_.FitBeside(element, grid_.Round(element, value), quantized_);
          errors[static_cast<size_t>(i * kRowsOfTask + row)] = target - double{quantized_[element]};
        }
      }
    });
  }
  if (refreshes) {
    grid_.MultiplyScales(factor_of);
    are_scales_searched_ = true;
  }
}

}  // namespace bitpress::finetune
