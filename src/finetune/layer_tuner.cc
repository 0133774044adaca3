#include "finetune/layer_tuner.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace bitpress::finetune {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix>;
using DenseMap = Eigen::Map<Matrix>;

}  // namespace

LayerTuner::LayerTuner(const LinearLayer& layer, const Moments& moments,
                       std::span<const float> weights, std::span<const float> bias,
                       WeightGrid& grid, const LayerTunerOptions& options, ThreadPool& pool)
    : layer_(layer),
      moments_(moments),
      original_(weights),
      grid_(grid),
      options_(options),
      pool_(pool),
      has_bias_(!bias.empty()),
      original_bias_(bias.begin(), bias.end()),
      ridges_(static_cast<size_t>(layer.groups)),
      hessian_(moments.inputs.size()),
      quantized_(weights.size()),
      bias_(bias.begin(), bias.end()) {
  BITPRESS_DCHECK(std::ssize(weights) == layer.groups * layer.rows * layer.columns);
  BITPRESS_DCHECK(bias.empty() || std::ssize(bias) == layer.num_outputs());
  const double count = static_cast<double>(std::max<int64_t>(moments.num_positions, 1));
  const auto columns = static_cast<size_t>(layer.columns);
  // If the bias is trainable, inputs are centred; a fixed bias needs second moments that are not.
  const double centre = has_bias_ && options_.corrects_bias ? 1 / count : 0.0;
  pool.ParallelFor(static_cast<size_t>(layer.groups) * columns, [&](size_t i) {
    const size_t first = i / columns * columns;
    const double* const x_sums = moments.input_sums.data() + first;
    const double* const inputs = moments.inputs.data() + i * columns;
    double* const hessian = hessian_.data() + i * columns;
    for (size_t j = 0; j < columns; ++j) {
      hessian[j] = (inputs[j] - centre * x_sums[i - first] * x_sums[j]) / count;
    }
  });
  for (size_t group = 0; group < ridges_.size(); ++group) {
    double* const hessian = hessian_.data() + group * columns * columns;
    double trace = 0;
    for (size_t i = 0; i < columns; ++i) trace += hessian[i * columns + i];
    const double mean = trace / static_cast<double>(columns);
    // If all inputs were always 0, any ridge keeps the weights.
    ridges_[group] = mean > 0 ? options_.ridge * mean : 1.0;
    for (size_t i = 0; i < columns; ++i) hessian[i * columns + i] += ridges_[group];
  }
}

void LayerTuner::PrepareCross() {
  if (!cross_.empty()) return;
  if (!moments_.has_outputs) return LearnAim();
  cross_.resize(moments_.cross.size());
  const double count = static_cast<double>(std::max<int64_t>(moments_.num_positions, 1));
  const double centre = has_bias_ && options_.corrects_bias ? 1 / count : 0.0;
  const bool has_fixed_bias = has_bias_ && !options_.corrects_bias && !layer_.is_bias_behind;
  ForEachRow([&](int64_t group, int64_t row) {
    const auto output = static_cast<size_t>(group * layer_.rows + row);
    const double* const x_sums = moments_.input_sums.data() + group * layer_.columns;
    const double y_sum = moments_.output_sums[output];
    const double fixed = has_fixed_bias ? double{original_bias_[output]} : 0.0;
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const double weight = original_[layer_.ElementOf(group, row, k)];
      const size_t i = output * static_cast<size_t>(layer_.columns) + static_cast<size_t>(k);
      cross_[i] = (moments_.cross[i] - (centre * y_sum + fixed) * x_sums[k]) / count +
                  ridges_[static_cast<size_t>(group)] * weight;
    }
  });
}

void LayerTuner::ForEachRow(const std::function<void(int64_t group, int64_t row)>& task) {
  pool_.ParallelFor(static_cast<size_t>(layer_.groups * layer_.rows), [&](size_t i) {
    task(static_cast<int64_t>(i) / layer_.rows, static_cast<int64_t>(i) % layer_.rows);
  });
}

void LayerTuner::LeastSquares() {
  if (aim_.empty()) LearnAim();
  are_scales_searched_ = false;
  target_ = aim_;
}

void LayerTuner::LearnAim() {
  BITPRESS_DCHECK(aim_.empty());
  const bool is_learned = moments_.has_outputs && options_.aim_share > 0;
  if (moments_.has_outputs) PrepareCross();
  cross_.resize(original_.size());
  aim_.resize(original_.size());
  pool_.ParallelFor(static_cast<size_t>(layer_.groups), [&](size_t g) {
    const auto group = static_cast<int64_t>(g);
    const auto first = static_cast<size_t>(group * layer_.rows * layer_.columns);
    DenseMap aim(aim_.data() + first, layer_.rows, layer_.columns);
    for (int64_t row = 0; row < layer_.rows; ++row) {
      for (int64_t k = 0; k < layer_.columns; ++k) {
        aim(row, k) = double{original_[layer_.ElementOf(group, row, k)]};
      }
    }
    const ConstMap hessian(Hessian(group), layer_.columns, layer_.columns);
    DenseMap cross(cross_.data() + first, layer_.rows, layer_.columns);
    const double more =
        ridges_[g] * (options_.aim_ridge.value_or(options_.ridge) / options_.ridge - 1);
    if (is_learned) {
      Matrix held = hessian;
      held.diagonal().array() += more;
      const Eigen::LLT<Eigen::Ref<Matrix>> cholesky(held);
      if (cholesky.info() == Eigen::Success) {
        const Matrix wanted = cross + more * aim;
        aim += options_.aim_share * (cholesky.solve(wanted.transpose()).transpose() - aim);
      }
    }
    cross.noalias() = aim * hessian;
  });
}

void LayerTuner::TakeTarget() {
  ForEachRow([&](int64_t group, int64_t row) {
    for (int64_t k = 0; k < layer_.columns; ++k) {
      quantized_[layer_.ElementOf(group, row, k)] = static_cast<float>(TargetOf(group, row, k));
    }
  });
}

void LayerTuner::RoundToNearest() {
  TakeTarget();
  if (!are_scales_searched_) grid_.FitScales(quantized_, pool_);
  std::vector<float> wanted;
  if (grid_.has_pairs()) wanted = quantized_;
  ForEachRow([&](int64_t group, int64_t row) {
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const size_t element = layer_.ElementOf(group, row, k);
      quantized_[element] = grid_.Round(element, double{quantized_[element]});
    }
  });
  grid_.FitPairs(wanted, quantized_, pool_);
}

std::vector<double> LayerTuner::Gradient(int64_t group, int64_t row) const {
  const int64_t columns = layer_.columns;
  const double* const hessian = Hessian(group);
  const double* const cross = cross_.data() + (group * layer_.rows + row) * columns;
  std::vector<double> gradient(static_cast<size_t>(columns));
  for (int64_t k = 0; k < columns; ++k) gradient[static_cast<size_t>(k)] = -cross[k];
  for (int64_t k = 0; k < columns; ++k) {
    const double value = Value(group, row, k);
    const double* const of_column = hessian + k * columns;
    for (int64_t j = 0; j < columns; ++j) {
      gradient[static_cast<size_t>(j)] += value * of_column[j];
    }
  }
  return gradient;
}

template <typename Candidates>
void LayerTuner::Descend(int64_t group, int64_t row, const Candidates& candidates) {
  const int64_t columns = layer_.columns;
  const double* const hessian = Hessian(group);
  std::vector<double> gradient = Gradient(group, row);
  for (int round = 0; round < options_.num_rounds; ++round) {
    bool has_changed = false;
    for (int64_t k = 0; k < columns; ++k) {
      const size_t element = layer_.ElementOf(group, row, k);
      const double now = double{quantized_[element]};
      const double* const of_column = hessian + k * columns;
      const double optimum = now - gradient[static_cast<size_t>(k)] / of_column[k];
      const float next = candidates(k, element, optimum);
      const double change = double{next} - now;
      // The gain must be larger than the rounding errors of the sums.
      if (change == 0 || std::abs(next - optimum) >= std::abs(now - optimum) * (1 - 1e-9)) continue;
      quantized_[element] = next;
      has_changed = true;
      for (int64_t j = 0; j < columns; ++j) {
        gradient[static_cast<size_t>(j)] += change * of_column[j];
      }
    }
    if (!has_changed) return;
  }
}

void LayerTuner::AdaRound() {
  PrepareCross();
  ForEachRow([&](int64_t group, int64_t row) {
    Descend(group, row, [&](int64_t k, size_t element, double optimum) {
      return RoundAround(element, TargetOf(group, row, k), optimum);
    });
  });
}

float LayerTuner::RoundAround(size_t element, double target, double optimum) const {
  const double step = grid_.StepAt(element, target);
  const float nearest = grid_.Round(element, target);
  const float other = grid_.Round(element, double{nearest} + (target > nearest ? step : -step));
  return grid_.FitBeside(element,
                         std::abs(other - optimum) < std::abs(nearest - optimum) ? other : nearest,
                         quantized_);
}

void LayerTuner::AdaQuant() {
  PrepareCross();
  constexpr int kMostRefits = 3;
  for (int refit = 0;; ++refit) {
    ForEachRow([&](int64_t group, int64_t row) {
      Descend(group, row, [&](int64_t, size_t element, double optimum) {
        return grid_.FitBeside(element, grid_.Round(element, optimum), quantized_);
      });
    });
    if (refit == kMostRefits || !RefitScales()) return;
  }
}

// With the codes z as they are, the loss of the rows that share a scale s is quadratic in it:
// s = sum cross z' / sum z H z'.
bool LayerTuner::RefitScales() {
  if (!grid_.is_integer() || layer_.row_stride == 0) return false;
  std::vector<formats::QParams> params = grid_.params();
  const plan::IntegerTreatment& treatment = *layer_.row->integer;
  if (treatment.scale_kind != formats::ScaleKind::kFloat) return false;
  if (treatment.granularity == plan::Granularity::kPerBlock) return false;
  // Each row's parts of the numerator and the denominator, for its present scale.
  const auto num_rows = static_cast<size_t>(layer_.groups * layer_.rows);
  std::vector<double> numerators(num_rows);
  std::vector<double> denominators(num_rows);
  std::vector<size_t> index(num_rows);
  std::vector<uint8_t> is_shared_row(num_rows, 1);
  ForEachRow([&](int64_t group, int64_t row) {
    const auto i = static_cast<size_t>(group * layer_.rows + row);
    const std::vector<double> gradient = Gradient(group, row);
    const double* const cross = cross_.data() + i * static_cast<size_t>(layer_.columns);
    index[i] = grid_.ParamsIndexOf(layer_.ElementOf(group, row, 0));
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const double value = Value(group, row, k);
      numerators[i] += cross[k] * value;
      denominators[i] += (gradient[static_cast<size_t>(k)] + cross[k]) * value;
      if (grid_.ParamsIndexOf(layer_.ElementOf(group, row, k)) != index[i]) is_shared_row[i] = 0;
    }
  });
  if (std::ranges::find(is_shared_row, 0) != is_shared_row.end()) return false;
  std::vector<double> numerator(params.size());
  std::vector<double> denominator(params.size());
  for (size_t i = 0; i < num_rows; ++i) {
    numerator[index[i]] += numerators[i];
    denominator[index[i]] += denominators[i];
  }
  std::vector<double> factors(params.size(), 1.0);
  for (size_t i = 0; i < params.size(); ++i) {
    const double factor = denominator[i] > 0 ? numerator[i] / denominator[i] : 1.0;
    const double scale = factor * double{params[i].scale};
    if (!(factor > 0.5 && factor < 2) || !std::isnormal(static_cast<float>(scale))) continue;
    params[i].scale = static_cast<float>(scale);
    factors[i] = factor;
  }
  if (params == grid_.params()) return false;
  // The codes stay, and the values follow the new scales.
  const std::vector<formats::QParams> before = grid_.params();
  grid_.set_params(params);
  ForEachRow([&](int64_t group, int64_t row) {
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const size_t element = layer_.ElementOf(group, row, k);
      const size_t of = grid_.ParamsIndexOf(element);
      const double code = std::nearbyint(double{quantized_[element]} / double{before[of].scale});
      quantized_[element] = static_cast<float>(code * double{params[of].scale});
    }
  });
  return true;
}

void LayerTuner::SetBias(size_t output, double bias) {
  const bool keeps_sign = original_bias_[output] * static_cast<float>(grid_.sign()) >= 0;
  const bool has_turned = bias * grid_.sign() < 0;
  bias_[output] = keeps_sign && has_turned ? 0.0F : static_cast<float>(bias);
}

void LayerTuner::CorrectBias() {
  if (!has_bias_ || moments_.num_positions == 0) return;
  const auto count = static_cast<double>(moments_.num_positions);
  ForEachRow([&](int64_t group, int64_t row) {
    const auto output = static_cast<size_t>(group * layer_.rows + row);
    const double* const x_sums = moments_.input_sums.data() + group * layer_.columns;
    double mean = moments_.has_outputs ? moments_.output_sums[output] : 0.0;
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const double original = original_[layer_.ElementOf(group, row, k)];
      mean -= (Value(group, row, k) - (moments_.has_outputs ? 0.0 : original)) * x_sums[k];
    }
    // Without observed outputs, the mean is that of the change that the weights make.
    const bool is_change = layer_.is_bias_behind || !moments_.has_outputs;
    SetBias(output, mean / count + (is_change ? double{original_bias_[output]} : 0.0));
  });
}

uint64_t TunerBytes(const LinearLayer& layer) {
  const auto groups = static_cast<uint64_t>(layer.groups);
  const auto rows = static_cast<uint64_t>(layer.rows);
  const auto columns = static_cast<uint64_t>(layer.columns);
  // hessian_ and what factors it; cross_, target_, aim_, and a side and a solution of its
  // equations.
  const uint64_t num_doubles = groups * columns * (2 * columns + 5 * rows);
  // About eight floats for each weight: its first, present and best value, and the grid's tables.
  const uint64_t num_floats = 8 * groups * rows * columns;
  return num_doubles * sizeof(double) + num_floats * sizeof(float);
}

}  // namespace bitpress::finetune
