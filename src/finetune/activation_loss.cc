// The methods of LayerTuner, and the errors of a layer, behind its activation function. The loss is
// the squared error of the function's values at the kept positions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "finetune/layer_tuner.h"

namespace bitpress::finetune {
namespace {

constexpr size_t kLanes = 16;

// Returns the sum of term(0) to term(count - 1). Several independent chains of additions let the
// compiler use vectors; their number is the same on every machine, and so is the result.
template <typename Term>
double SumOver(size_t count, const Term& term) {
  float lanes[kLanes] = {};
  double sum = 0;
  // Chains in float32 must not get long, or their rounding errors grow.
  constexpr size_t kMostTerms = 256 * kLanes;
  for (size_t begin = 0; begin < count; begin += kMostTerms) {
    const size_t end = std::min(count, begin + kMostTerms);
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (; i < end; ++i) lanes[0] += term(i);
    for (float& lane : lanes) sum += double{std::exchange(lane, 0.0F)};
  }
  return sum;
}

// Calls `use` with the activation function. A Clip becomes a lambda of its own, which the compiler
// can inline.
template <typename Use>
void WithFunction(const ActivationFunction& activation, const Use& use) {
  if (activation.kind == ActivationFunction::Kind::kClip) {
    use([least = activation.a, most = activation.b](float x) {
      return std::min(std::max(x, least), most);
    });
  } else {
    use([&](float x) { return activation.Apply(x); });
  }
}

// Returns input k of a group at the kept positions.
const float* InputsOf(const LinearLayer& layer, const MomentRows& kept, int64_t group, int64_t k) {
  return kept.x.data() + (group * layer.columns + k) * kept.capacity;
}

// Returns W x + b of one output at the kept positions.
std::vector<float> Products(const LinearLayer& layer, const MomentRows& kept, int64_t group,
                            int64_t row, std::span<const float> weights, float bias) {
  std::vector<float> products(static_cast<size_t>(kept.count), bias);
  for (int64_t k = 0; k < layer.columns; ++k) {
    const float weight = weights[layer.ElementOf(group, row, k)];
    const float* const x = InputsOf(layer, kept, group, k);
    for (size_t i = 0; i < products.size(); ++i) products[i] += weight * x[i];
  }
  return products;
}

// Returns the values of the float model's activation function at the kept positions.
std::vector<float> Targets(const LinearLayer& layer, const MomentRows& kept, int64_t group,
                           int64_t row, std::span<const float> float_bias) {
  const int64_t output = group * layer.rows + row;
  const float* const y = kept.y.data() + output * kept.capacity;
  const float behind = layer.is_bias_behind ? float_bias[static_cast<size_t>(output)] : 0.0F;
  std::vector<float> targets(static_cast<size_t>(kept.count));
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = layer.activation->Apply(y[i] + behind);
  return targets;
}

// The sum over the kept positions of |f(p) - f(y)|^2 of one output, as its products p change.
template <typename Function>
class KeptLoss {
 public:
  KeptLoss(const ActivationFunction& activation, Function function, std::vector<float> products,
           std::vector<float> targets)
      : activation_(activation),
        function_(std::move(function)),
        products_(std::move(products)),
        targets_(std::move(targets)),
        slopes_(products_.size()),
        errors_(products_.size()) {
    Update();
  }

  double value() const { return value_; }
  // Returns half the derivative of the loss with respect to the weight that multiplies x.
  double SlopeAlong(const float* x) const {
    return SumOver(errors_.size(), [&](size_t i) { return errors_[i] * x[i]; });
  }
  // Returns half the second derivative, without the curvature of the function itself.
  double CurvatureAlong(const float* x) const {
    return SumOver(slopes_.size(), [&](size_t i) {
      const float reach = slopes_[i] * x[i];
      return reach * reach;
    });
  }
  // Returns the loss after a change of that weight.
  double After(const float* x, float change) const {
    return SumOver(products_.size(), [&](size_t i) {
      const float error = function_(products_[i] + change * x[i]) - targets_[i];
      return error * error;
    });
  }
  void Change(const float* x, float change) {
    for (size_t i = 0; i < products_.size(); ++i) products_[i] += change * x[i];
    Update();
  }

 private:
  void Update() {
    value_ = SumOver(products_.size(), [&](size_t i) {
      const float error = function_(products_[i]) - targets_[i];
      return error * error;
    });
    for (size_t i = 0; i < products_.size(); ++i) {
      slopes_[i] = activation_.Slope(products_[i]);
      errors_[i] = (function_(products_[i]) - targets_[i]) * slopes_[i];
    }
  }

  const ActivationFunction& activation_;
  Function function_;
  std::vector<float> products_, targets_;
  std::vector<float> slopes_;
  std::vector<float> errors_;  // each times its slope
  double value_ = 0;
};

}  // namespace

void LayerTuner::LearnBehindActivation(Freedom freedom) {
  const MomentRows& kept = moments_.kept;
  if (!layer_.activation || kept.count == 0) return;
  PrepareCross();
  // The fewer positions are kept for each weight, the more the loss over all positions counts.
  const double columns = static_cast<double>(layer_.columns);
  const double of_form = columns / (columns + static_cast<double>(kept.count));
  const double of_kept = (1 - of_form) / static_cast<double>(kept.count);
  constexpr int kMostRounds = 3;
  const int num_rounds = std::min(options_.num_rounds, kMostRounds);
  // Changes one weight of a row at a time; returns whether any changed.
  const auto descend = [&](int64_t group, int64_t row, std::vector<double>& gradient, auto& loss) {
    bool has_changed = false;
    for (int64_t k = 0; k < layer_.columns; ++k) {
      const float* const x = InputsOf(layer_, kept, group, k);
      const double* const of_column = Hessian(group) + k * layer_.columns;
      const double of_gradient = gradient[static_cast<size_t>(k)];
      const double curvature = of_kept * loss.CurvatureAlong(x) + of_form * of_column[k];
      if (!(curvature > 0)) continue;
      const size_t element = layer_.ElementOf(group, row, k);
      const double now = double{quantized_[element]};
      const double optimum =
          now - (of_kept * loss.SlopeAlong(x) + of_form * of_gradient) / curvature;
      const float next = freedom == Freedom::kAroundTarget
                             ? RoundAround(element, TargetOf(group, row, k), optimum)
                             : grid_.FitBeside(element, grid_.Round(element, optimum), quantized_);
      const double change = double{next} - now;
      if (change == 0) continue;
      const double gain = of_kept * (loss.value() - loss.After(x, static_cast<float>(change))) -
                          of_form * change * (2 * of_gradient + change * of_column[k]);
      if (!(gain > 1e-6 * of_kept * loss.value())) continue;
      quantized_[element] = next;
      has_changed = true;
      loss.Change(x, static_cast<float>(change));
      for (int64_t j = 0; j < layer_.columns; ++j) {
        gradient[static_cast<size_t>(j)] += change * of_column[j];
      }
    }
    return has_changed;
  };
  ForEachRow([&](int64_t group, int64_t row) {
    const auto output = static_cast<size_t>(group * layer_.rows + row);
    const float bias = has_bias_ ? bias_[output] : 0.0F;
    std::vector<double> gradient = Gradient(group, row);
    WithFunction(*layer_.activation, [&](const auto& function) {
      KeptLoss loss(*layer_.activation, function,
                    Products(layer_, kept, group, row, quantized_, bias),
                    Targets(layer_, kept, group, row, original_bias_));
      for (int round = 0; round < num_rounds; ++round) {
        if (!descend(group, row, gradient, loss)) return;
      }
    });
  });
}

void LayerTuner::CorrectBiasBehindActivation() {
  const MomentRows& kept = moments_.kept;
  if (!has_bias_ || !layer_.activation || kept.count == 0) return;
  const ActivationFunction& activation = *layer_.activation;
  constexpr int kNumSteps = 3;  // steps of Newton's method
  ForEachRow([&](int64_t group, int64_t row) {
    const auto output = static_cast<size_t>(group * layer_.rows + row);
    const std::vector<float> targets = Targets(layer_, kept, group, row, original_bias_);
    const std::vector<float> products =
        Products(layer_, kept, group, row, quantized_, bias_[output]);
    double shift = 0;
    for (int step = 0; step < kNumSteps; ++step) {
      double slope = 0;
      // A twentieth of the positions holds the bias where it is.
      double curvature = 0.05 * static_cast<double>(kept.count);
      slope = curvature * shift;
      for (size_t i = 0; i < products.size(); ++i) {
        const auto x = static_cast<float>(double{products[i]} + shift);
        const double reach = activation.Slope(x);
        slope += reach * (double{activation.Apply(x)} - double{targets[i]});
        curvature += reach * reach;
      }
      shift -= slope / curvature;
    }
    SetBias(output, double{bias_[output]} + shift);
  });
}

double ErrorBehindActivation(const LinearLayer& layer, const MomentRows& kept,
                             std::span<const float> weights, std::span<const float> bias,
                             std::span<const float> float_bias, ThreadPool& pool) {
  BITPRESS_DCHECK(layer.activation.has_value());
  if (kept.count == 0) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> errors(static_cast<size_t>(layer.groups * layer.rows));
  pool.ParallelFor(errors.size(), [&](size_t output) {
    const int64_t group = static_cast<int64_t>(output) / layer.rows;
    const int64_t row = static_cast<int64_t>(output) % layer.rows;
    const std::vector<float> targets = Targets(layer, kept, group, row, float_bias);
    const std::vector<float> products =
        Products(layer, kept, group, row, weights, bias.empty() ? 0.0F : bias[output]);
    WithFunction(*layer.activation, [&](const auto& function) {
      errors[output] = SumOver(products.size(), [&](size_t i) {
        const float error = function(products[i]) - targets[i];
        return error * error;
      });
    });
  });
  double sum = 0;
  for (const double error : errors) sum += error;
  return sum / static_cast<double>(kept.count);
}

double VarianceBehindActivation(const LinearLayer& layer, const MomentRows& kept,
                                std::span<const float> float_bias) {
  BITPRESS_DCHECK(layer.activation.has_value() && kept.count > 0);
  double sum = 0;
  for (int64_t output = 0; output < layer.groups * layer.rows; ++output) {
    const std::vector<float> targets =
        Targets(layer, kept, output / layer.rows, output % layer.rows, float_bias);
    const auto count = static_cast<double>(targets.size());
    const double mean = SumOver(targets.size(), [&](size_t i) { return targets[i]; }) / count;
    sum += SumOver(targets.size(), [&](size_t i) { return targets[i] * targets[i]; }) / count -
           mean * mean;
  }
  return sum;
}

}  // namespace bitpress::finetune
