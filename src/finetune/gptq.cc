// Pass gptq of LayerTuner: rounds the columns of a layer one after another.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "finetune/layer_tuner.h"

namespace bitpress::finetune {
namespace {

// Number of rows rounded together, so that each column of the triangle is read once for all.
constexpr int64_t kRowsOfTask = 8;

// Sums of the errors of columns that are rounded already, times one column of the triangle: one sum
// for each row of the weight.
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

// A group of a layer, with its matrix factored in the order of rounding.
struct FactoredGroup {
  const LinearLayer& layer;
  int64_t group = 0;
  const double* target = nullptr;  // [rows, columns]
  std::vector<int64_t> order;
  Eigen::MatrixXd triangle;  // lower triangle: the factor; upper: unused, still the matrix
};

// Factors the group's matrix in place, as matrices of wide layers are large. Returns whether it has
// a factor.
bool Factor(const double* hessian, FactoredGroup& group) {
  const int64_t columns = group.layer.columns;
  group.triangle.resize(columns, columns);
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      group.triangle(i, j) = hessian[group.order[static_cast<size_t>(i)] * columns +
                                     group.order[static_cast<size_t>(j)]];
    }
  }
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(group.triangle);
  return cholesky.info() == Eigen::Success;
}

// Some rows of a group, rounded column by column, the last of the order first.
class Rows {
 public:
  Rows(const FactoredGroup& group, int64_t first, const WeightGrid& grid,
       std::span<float> quantized)
      : group_(group),
        first_(first),
        count_(std::min(kRowsOfTask, group.layer.rows - first)),
        columns_(group.layer.columns),
        grid_(grid),
        quantized_(quantized),
        errors_(static_cast<size_t>(columns_ * kRowsOfTask)) {}

  void Round() {
    for (int64_t i = columns_; i-- > 0;) {
      // Neighbours whose turn has not come have their value rounded to nearest.
      RoundColumn(i, [&](size_t element, double value) {
        return grid_.FitBeside(element, grid_.Round(element, value), quantized_);
      });
    }
  }

  // Rounds as Round does, with each scale times the best of `factors`. The factor is chosen before
  // the first column of the scale is rounded, and written to `factor_of`.
  void RoundWithScales(std::span<const double> factors, std::vector<double>& factor_of) {
    int64_t block = columns_;
    for (int64_t i = columns_; i-- > 0;) {
      if (i < block) {
        block = BeginOfBlock(i);
        ChooseFactors(block, i + 1, factors, factor_of);
      }
      RoundColumn(i, [&](size_t element, double value) {
        return grid_.RoundScaled(element, value, factor_of[grid_.ScaleIndexOf(element)]);
      });
    }
  }

 private:
  size_t ElementOf(int64_t i, int64_t row) const {
    return group_.layer.ElementOf(group_.group, first_ + row, group_.order[static_cast<size_t>(i)]);
  }
  double TargetOf(int64_t i, int64_t row) const {
    return group_.target[(first_ + row) * columns_ + group_.order[static_cast<size_t>(i)]];
  }
  static size_t At(int64_t i, int64_t row) { return static_cast<size_t>(i * kRowsOfTask + row); }
  // Returns a column of the triangle, which is stored by columns.
  const double* Column(int64_t i) const { return group_.triangle.data() + i * columns_; }

  template <typename RoundTo>
  void RoundColumn(int64_t i, const RoundTo& round) {
    const double* const column = Column(i);
    const Sums sums = SumBelow(column, i + 1, columns_, errors_);
    for (int64_t row = 0; row < count_; ++row) {
      const size_t element = ElementOf(i, row);
      const double target = TargetOf(i, row);
      quantized_[element] = round(element, target + sums.of_row[row] / column[i]);
      errors_[At(i, row)] = target - double{quantized_[element]};
    }
  }

  // Returns the first of the columns up to i that share column i's scale. It is the same in every
  // row.
  int64_t BeginOfBlock(int64_t i) const {
    const size_t scale = grid_.ScaleIndexOf(ElementOf(i, 0));
    while (i > 0 && grid_.ScaleIndexOf(ElementOf(i - 1, 0)) == scale) --i;
    return i;
  }

  // Chooses the factors of a block's scales, from the compensated weights of the block.
  void ChooseFactors(int64_t begin, int64_t end, std::span<const double> factors,
                     std::vector<double>& factor_of) {
    wanted_.resize(errors_.size());
    for (int64_t i = end; i-- > begin;) {
      const double* const column = Column(i);
      const Sums sums = SumBelow(column, i + 1, columns_, errors_);
      for (int64_t row = 0; row < count_; ++row) {
        const size_t at = At(i, row);
        wanted_[at] = TargetOf(i, row) + sums.of_row[row] / column[i];
        errors_[at] = TargetOf(i, row) - wanted_[at];  // as if it were not rounded
      }
    }
    for (int64_t row = 0; row < count_; ++row) {
      double least = -1;
      double& best = factor_of[grid_.ScaleIndexOf(ElementOf(begin, row))];
      for (const double factor : factors) {
        const double loss = LossOf(begin, end, row, factor);
        if (least >= 0 && loss >= least) continue;
        least = loss;
        best = factor;
      }
    }
  }

  // Returns the loss of rounding one row of a block with its scale times `factor`.
  double LossOf(int64_t begin, int64_t end, int64_t row, double factor) const {
    double loss = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double value = wanted_[At(i, row)];
      const double error =
          (double{grid_.RoundScaled(ElementOf(i, row), value, factor)} - value) * Column(i)[i];
      loss += error * error;
    }
    return loss;
  }

  const FactoredGroup& group_;
  int64_t first_;
  int64_t count_;
  int64_t columns_;
  const WeightGrid& grid_;
  std::span<float> quantized_;
  std::vector<double> errors_;  // [column, row]: target - rounded value
  std::vector<double> wanted_;  // [column, row]: compensated weights of the present block
};

}  // namespace

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
  const bool refreshes = CanRefreshScales();
  const std::span<const double> factors = grid_.ScaleFactors();
  std::vector<double> factor_of(grid_.num_scales(), 1.0);
  for (int64_t group = 0; group < layer_.groups; ++group) {
    FactoredGroup factored{layer_, group, Target(group, 0), RoundingOrder(group), {}};
    if (!Factor(Hessian(group), factored)) continue;  // the group stays rounded to nearest
    const int64_t num_tasks = (layer_.rows + kRowsOfTask - 1) / kRowsOfTask;
    pool_.ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task) {
      Rows rows(factored, static_cast<int64_t>(task) * kRowsOfTask, grid_, quantized_);
      if (refreshes) {
        rows.RoundWithScales(factors, factor_of);
      } else {
        rows.Round();
      }
    });
  }
  if (refreshes) {
    grid_.MultiplyScales(factor_of);
    are_scales_searched_ = true;
  }
}

}  // namespace bitpress::finetune
