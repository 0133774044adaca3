// Pass gptq of LayerTuner: rounds the columns of a layer one after another.
//
// Columns are rounded in blocks, from the last one on. Within a block each column takes over the
// errors of the columns behind it at once. The columns before the block take them over when it is
// done, in one matrix product: the "lazy batch updates" of the paper. So the triangle is read once
// for many rows, by a kernel that keeps its sums in registers.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "finetune/cholesky.h"
#include "finetune/layer_tuner.h"
#include "kernels/row_products.h"

namespace bitpress::finetune {
namespace {

// Number of rows rounded together: a row of errors for each takes part in the products.
constexpr int64_t kRowsOfTask = 64;
// Columns of a block. Wider ones cost more within the blocks, narrower ones in the kernel's sums.
constexpr int64_t kColumnsAtOnce = 128;
constexpr auto kStep = static_cast<int64_t>(kernels::kRowProductStep);

// Sums of the errors of columns that are rounded already, times one column of the triangle: one sum
// for each row of the weight.
struct Sums {
  double of_row[kRowsOfTask];
};

// A group of a layer, with its matrix factored in the order of rounding.
struct FactoredGroup {
  const LinearLayer& layer;
  int64_t group = 0;
  std::function<double(int64_t row, int64_t column)> target;
  std::vector<int64_t> order = {};
  std::vector<double> diagonal = {};  // of the factor
  // The factor's columns below the diagonal, one after another: element (j, i) of the factor is
  // columns_below[i * stride + j]. Each has kStep zeros or more behind its last element.
  std::vector<float> columns_below = {};
  int64_t stride = 0;
};

// Factors the group's matrix. Returns whether it has a factor.
bool Factor(const double* hessian, FactoredGroup& group, ThreadPool& pool) {
  const int64_t columns = group.layer.columns;
  const auto size = static_cast<size_t>(columns);
  std::vector<double> matrix(size * size);
  const auto fill = [&] {
    pool.ParallelFor(size, [&](size_t i) {
      const double* const from = hessian + group.order[i] * columns;
      for (size_t j = 0; j <= i; ++j) matrix[i * size + j] = from[group.order[j]];
    });
  };
  fill();
  if (!FactorInPlace(matrix, columns, pool)) {
    fill();
    if (!FactorExactly(matrix, columns)) return false;
  }
  group.stride = (columns + kStep - 1) / kStep * kStep + kStep;
  group.columns_below.resize(size * static_cast<size_t>(group.stride));
  group.diagonal.resize(size);
  // Square tiles, so that neither the rows nor the columns of a tile leave the cache.
  constexpr size_t kTile = 64;
  pool.ParallelFor((size + kTile - 1) / kTile, [&](size_t task) {
    const size_t begin = task * kTile;
    const size_t end = std::min(begin + kTile, size);
    for (size_t i = begin; i < end; ++i) group.diagonal[i] = matrix[i * size + i];
    for (size_t first = begin; first < size; first += kTile) {
      for (size_t i = begin; i < end; ++i) {
        float* const to = group.columns_below.data() + i * static_cast<size_t>(group.stride);
        for (size_t j = std::max(first, i + 1); j < std::min(first + kTile, size); ++j) {
          to[j] = static_cast<float>(matrix[j * size + i]);
        }
      }
    }
  });
  return true;
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
        behind_(static_cast<size_t>(columns_ * kRowsOfTask)) {}

  void Round() {
    for (int64_t end = columns_; end > 0;) {
      const int64_t begin = (end - 1) / kColumnsAtOnce * kColumnsAtOnce;
      BeginBlock(begin, end);
      for (int64_t i = end; i-- > begin;) {
        // Neighbours whose turn has not come have their value rounded to nearest.
        RoundColumn(i, [&](size_t element, double value) {
          return grid_.FitBeside(element, grid_.Round(element, value), quantized_);
        });
      }
      EndBlock();
      end = begin;
    }
  }

  // Rounds as Round does, with each scale times the best of `factors`. The factor is chosen before
  // the first column of the scale is rounded, and written to `factor_of`.
  void RoundWithScales(std::span<const double> factors, std::vector<double>& factor_of) {
    for (int64_t end = columns_; end > 0;) {
      // A block holds whole scales.
      int64_t begin = end;
      while (begin > 0 && end - begin < kColumnsAtOnce) begin = BeginOfScale(begin - 1);
      BeginBlock(begin, end);
      int64_t scale = end;
      for (int64_t i = end; i-- > begin;) {
        if (i < scale) {
          scale = BeginOfScale(i);
          ChooseFactors(scale, i + 1, factors, factor_of);
        }
        RoundColumn(i, [&](size_t element, double value) {
          return grid_.RoundScaled(element, value, factor_of[grid_.ScaleIndexOf(element)]);
        });
      }
      EndBlock();
      end = begin;
    }
  }

 private:
  size_t ElementOf(int64_t i, int64_t row) const {
    return group_.layer.ElementOf(group_.group, first_ + row, group_.order[static_cast<size_t>(i)]);
  }
  double TargetOf(int64_t i, int64_t row) const {
    return group_.target(first_ + row, group_.order[static_cast<size_t>(i)]);
  }
  size_t At(int64_t i, int64_t row) const {
    return static_cast<size_t>((i - begin_) * kRowsOfTask + row);
  }

  void BeginBlock(int64_t begin, int64_t end) {
    begin_ = begin;
    end_ = end;
    errors_.assign(static_cast<size_t>((end - begin) * kRowsOfTask), 0.0);
  }

  // Hands the block's errors on to the columns before it.
  void EndBlock() {
    if (begin_ == 0) return;
    const int64_t length = (end_ - begin_ + kStep - 1) / kStep * kStep;
    rows_of_errors_.assign(static_cast<size_t>(length * kRowsOfTask), 0.0F);
    for (int64_t i = begin_; i < end_; ++i) {
      for (int64_t row = 0; row < count_; ++row) {
        rows_of_errors_[static_cast<size_t>(row * length + i - begin_)] =
            static_cast<float>(errors_[At(i, row)]);
      }
    }
    constexpr auto kMost = static_cast<int64_t>(kernels::kMostRowProductLength);
    constexpr int64_t kTile = 64;  // columns whose part of the triangle stays in the cache
    for (int64_t from = 0; from < length; from += kMost) {
      for (int64_t i = 0; i < begin_; i += kTile) {
        kernels::AddRowProducts(
            {rows_of_errors_.data() + from, static_cast<size_t>(count_),
             static_cast<size_t>(length)},
            {group_.columns_below.data() + i * group_.stride + begin_ + from,
             static_cast<size_t>(std::min(kTile, begin_ - i)), static_cast<size_t>(group_.stride)},
            static_cast<size_t>(std::min(kMost, length - from)), behind_.data() + i,
            static_cast<size_t>(columns_));
      }
    }
  }

  // Returns the sums for column i, over all columns behind it.
  Sums SumsBehind(int64_t i) const {
    Sums sums;
    for (int64_t row = 0; row < kRowsOfTask; ++row) {
      sums.of_row[row] = behind_[static_cast<size_t>(row * columns_ + i)];
    }
    const float* const column = group_.columns_below.data() + i * group_.stride;
    for (int64_t j = i + 1; j < end_; ++j) {
      const double factor = double{column[j]};
      const double* const errors = errors_.data() + At(j, 0);
      for (int64_t row = 0; row < kRowsOfTask; ++row) sums.of_row[row] += factor * errors[row];
    }
    return sums;
  }

  template <typename RoundTo>
  void RoundColumn(int64_t i, const RoundTo& round) {
    const Sums sums = SumsBehind(i);
    const double diagonal = group_.diagonal[static_cast<size_t>(i)];
    for (int64_t row = 0; row < count_; ++row) {
      const size_t element = ElementOf(i, row);
      const double target = TargetOf(i, row);
      quantized_[element] = round(element, target + sums.of_row[row] / diagonal);
      errors_[At(i, row)] = target - double{quantized_[element]};
    }
  }

  // Returns the first of the columns up to i that share column i's scale. It is the same in every
  // row.
  int64_t BeginOfScale(int64_t i) const {
    const size_t scale = grid_.ScaleIndexOf(ElementOf(i, 0));
    while (i > 0 && grid_.ScaleIndexOf(ElementOf(i - 1, 0)) == scale) --i;
    return i;
  }

  // Chooses the factors of the scales of columns [begin, end): those with the least loss if each
  // column takes over the errors of the columns behind it, as it will.
  void ChooseFactors(int64_t begin, int64_t end, std::span<const double> factors,
                     std::vector<double>& factor_of) {
    wanted_.resize(errors_.size());
    for (int64_t i = begin; i < end; ++i) {
      const Sums sums = SumsBehind(i);  // errors of columns that have no value yet are 0
      const double diagonal = group_.diagonal[static_cast<size_t>(i)];
      for (int64_t row = 0; row < count_; ++row) {
        wanted_[At(i, row)] = TargetOf(i, row) + sums.of_row[row] / diagonal;
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

  // Returns the loss of rounding one row's columns [begin, end) with their scale times `factor`.
  double LossOf(int64_t begin, int64_t end, int64_t row, double factor) {
    inner_sums_.assign(static_cast<size_t>(end - begin), 0.0);
    double loss = 0;
    for (int64_t i = end; i-- > begin;) {
      const double diagonal = group_.diagonal[static_cast<size_t>(i)];
      const double value =
          wanted_[At(i, row)] + inner_sums_[static_cast<size_t>(i - begin)] / diagonal;
      const double rounded{grid_.RoundScaled(ElementOf(i, row), value, factor)};
      const double distance = (rounded - value) * diagonal;
      loss += distance * distance;
      const double error = TargetOf(i, row) - rounded;
      const float* const of_column = group_.columns_below.data() + i;
      for (int64_t j = begin; j < i; ++j) {
        inner_sums_[static_cast<size_t>(j - begin)] += error * double{of_column[j * group_.stride]};
      }
    }
    return loss;
  }

  const FactoredGroup& group_;
  int64_t first_;
  int64_t count_;
  int64_t columns_;
  const WeightGrid& grid_;
  std::span<float> quantized_;
  std::vector<double> behind_;  // [row, column]: sums over the blocks that are done
  int64_t begin_ = 0;           // the present block
  int64_t end_ = 0;
  std::vector<double> errors_;  // [column of the block, row]: target - rounded value
  // Likewise: the weights of the columns of a scale, with the errors of the columns behind them.
  std::vector<double> wanted_;
  std::vector<double> inner_sums_;     // of the errors within a scale, for each of its columns
  std::vector<float> rows_of_errors_;  // [row, column of the block]: the errors, once it is done
};

}  // namespace

std::vector<int64_t> LayerTuner::RoundingOrder(int64_t group) const {
  const double* const hessian = Hessian(group);
  std::vector<int64_t> order(static_cast<size_t>(layer_.columns));
  std::iota(order.begin(), order.end(), 0);
  if (!options_.activation_order) {
    std::ranges::reverse(order);
    return order;
  }
  const auto square_of = [&](int64_t k) { return hessian[k * layer_.columns + k]; };
  if (!CanRefreshScales()) {
    std::ranges::stable_sort(order, {}, square_of);
    return order;
  }
  // Inputs that share a scale stay together, because it is chosen once: the inputs with the largest
  // mean square come first, and the largest among them.
  struct Sum {
    double squares = 0;
    int64_t count = 0;
  };
  std::map<size_t, Sum> of_scale;
  const auto scale_of = [&](int64_t k) {
    return grid_.ScaleIndexOf(layer_.ElementOf(group, 0, k));
  };
  for (const int64_t k : order) {
    Sum& sum = of_scale[scale_of(k)];
    sum.squares += square_of(k);
    ++sum.count;
  }
  std::ranges::stable_sort(order, {}, [&](int64_t k) {
    const size_t scale = scale_of(k);
    const Sum& sum = of_scale.at(scale);
    return std::tuple(sum.squares / static_cast<double>(sum.count), scale, square_of(k));
  });
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
    const auto target = [&, group](int64_t row, int64_t k) { return TargetOf(group, row, k); };
    FactoredGroup factored{layer_, group, target, RoundingOrder(group)};
    if (!Factor(Hessian(group), factored, pool_)) continue;  // the group stays rounded to nearest
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
