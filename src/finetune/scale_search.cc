// Pass clip_search of LayerTuner: chooses each scale by the error of the outputs.
#include <algorithm>
#include <numeric>

#include "finetune/layer_tuner.h"

namespace bitpress::finetune {

void LayerTuner::AddScaleLosses(int64_t group, int64_t row, std::span<const double> factors,
                                std::vector<ScaleLoss>& losses) const {
  // Errors of columns further apart count as independent. The cost grows with this number.
  constexpr size_t kWindow = 128;
  const int64_t columns = layer_.columns;
  const double* const hessian = Hessian(group);
  const auto scale_of = [&](int64_t k) {
    return grid_.ScaleIndexOf(layer_.ElementOf(group, row, k));
  };
  std::vector<int64_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, scale_of);
  std::vector<double> errors(order.size());
  for (size_t factor = 0; factor < factors.size(); ++factor) {
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t k = order[i];
      const size_t element = layer_.ElementOf(group, row, k);
      const double target = TargetOf(group, row, k);
      errors[i] = double{grid_.RoundScaled(element, target, factors[factor])} - target;
    }
    for (size_t begin = 0; begin < order.size();) {
      const size_t scale = scale_of(order[begin]);
      size_t end = begin + 1;
      while (end < order.size() && end - begin < kWindow && scale_of(order[end]) == scale) ++end;
      double loss = 0;
      for (size_t i = begin; i < end; ++i) {
        const double* const of_column = hessian + order[i] * columns;
        double sum = 0.5 * errors[i] * of_column[order[i]];
        for (size_t j = i + 1; j < end; ++j) sum += errors[j] * of_column[order[j]];
        loss += 2 * errors[i] * sum;
      }
      losses.push_back({scale, factor, loss});
      begin = end;
    }
  }
}

void LayerTuner::SearchScales() {
  are_scales_searched_ = false;
  RoundToNearest();
  if (grid_.num_scales() == 0) return;
  const std::span<const double> factors = grid_.ScaleFactors();
  // Rows may share scales. Their losses are added in the order of the rows, a few rows at a time,
  // so that the sums do not depend on the number of threads.
  constexpr int64_t kRowsAtOnce = 256;
  const int64_t num_rows = layer_.groups * layer_.rows;
  std::vector<double> losses(grid_.num_scales() * factors.size());
  for (int64_t begin = 0; begin < num_rows; begin += kRowsAtOnce) {
    std::vector<std::vector<ScaleLoss>> of_rows(
        static_cast<size_t>(std::min(kRowsAtOnce, num_rows - begin)));
    pool_.ParallelFor(of_rows.size(), [&](size_t i) {
      const int64_t row = begin + static_cast<int64_t>(i);
      AddScaleLosses(row / layer_.rows, row % layer_.rows, factors, of_rows[i]);
    });
    for (const std::vector<ScaleLoss>& of_row : of_rows) {
      for (const ScaleLoss& part : of_row) {
        losses[part.scale * factors.size() + part.factor] += part.loss;
      }
    }
  }
  std::vector<double> best;
  for (size_t scale = 0; scale < grid_.num_scales(); ++scale) {
    const auto of_scale = std::span(losses).subspan(scale * factors.size(), factors.size());
    best.push_back(
        factors[static_cast<size_t>(std::ranges::min_element(of_scale) - of_scale.begin())]);
  }
  grid_.MultiplyScales(best);
  are_scales_searched_ = true;
  RoundToNearest();
}

}  // namespace bitpress::finetune
