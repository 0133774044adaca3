// Learning the weights of one layer from its second moments. Every pass takes the state that the
// passes before it left: `target`, the real numbers that the weights would like to be, and
// `quantized`, values of the grid. All of them lower, or try to lower, the quadratic loss
//
//     |W x + b - y|^2 + ridge |W - W0|^2,   W0: the float model's weights,
//
// where the second term, small against the first, decides what the samples leave open: dead
// channels, fewer samples than weights. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "finetune/layer.h"
#include "finetune/moments.h"
#include "finetune/weight_grid.h"

namespace bitpress::finetune {

struct LayerTunerOptions {
  // In parts of the mean square of the inputs.
  double ridge = 0.01;
  // Of adaround and adaquant: rounds over all weights, at most.
  int num_rounds = 20;
  // Of gptq: rounds weights of inputs with large squares first.
  bool activation_order = true;
  // Of gptq: as plan::FinetuneSettings has it.
  bool refresh_scales = false;
  // Whether CorrectBias follows. Then the means of errors do not count, because the bias takes them
  // out; otherwise the bias stays that of the float model, and they do.
  bool corrects_bias = true;
};

class LayerTuner {
 public:
  // `moments` are of positions to learn from, `weights` and `bias` (empty: none) those of the float
  // model, in the layout of the model; `grid` has the layer's format. All must outlive the tuner.
  LayerTuner(const LinearLayer& layer, const Moments& moments, std::span<const float> weights,
             std::span<const float> bias, WeightGrid& grid, const LayerTunerOptions& options,
             ThreadPool& pool);

  // target = the weights with the least loss without quantization, in closed form.
  void LeastSquares();
  // quantized = the target as it is, to know what rounding costs.
  void TakeTarget();
  // Fixes the scales for the target, if a search has not, and quantized = the target rounded to
  // nearest.
  void RoundToNearest();
  // Of a few scales around that of the target each takes the one whose rounding errors do the least
  // in the outputs; quantized = the target rounded to nearest. The errors of inputs that lie far
  // apart, and of those with different scales, are taken as independent.
  void SearchScales();
  // quantized = the target rounded one weight after another, each taking over what the ones before
  // it got wrong (Frantar et al., "GPTQ", 2022, in the form of Babai's nearest plane; Chen et al.,
  // 2025).
  void Gptq();
  // quantized = for each weight one of the two values around the target, with less loss: what
  // AdaRound (Nagel et al., 2020) learns by gradients, found by descent over the weights.
  void AdaRound();
  // quantized = any values and, for integers with a scale per output or tensor, any scales, with
  // less loss: what AdaQuant (Hubara et al., 2020) learns.
  void AdaQuant();
  // The bias that makes the mean output that of the float model. Nothing for layers without bias.
  void CorrectBias();
  // The values that each weight may take while it is learned.
  enum class Freedom {
    kAroundTarget,  // the two values around the target, as AdaRound has them
    kAnyValue,      // every value of the grid, as AdaQuant has them
  };
  // Sets `quantized` to values with a smaller loss behind the layer's activation function, at the
  // kept positions. The quadratic loss over all positions is a part of that loss, and the larger
  // part if few positions are kept. Does nothing for layers without kept positions.
  void LearnBehindActivation(Freedom freedom);
  // The bias with the least loss there.
  void CorrectBiasBehindActivation();

  std::span<const float> quantized() const { return quantized_; }  // in the layout of the model
  std::span<const float> bias() const { return bias_; }

 private:
  // What the elements of one row that share a scale cost.
  struct ScaleLoss {
    size_t scale;
    size_t factor;
    double loss;
  };
  // Row m of group g; K elements.
  double* Target(int64_t group, int64_t row) {
    return target_.data() + (group * layer_.rows + row) * layer_.columns;
  }
  const double* Hessian(int64_t group) const {
    return hessian_.data() + group * layer_.columns * layer_.columns;
  }
  double Value(int64_t group, int64_t row, int64_t column) const {
    return double{quantized_[layer_.ElementOf(group, row, column)]};
  }
  void ForEachRow(const std::function<void(int64_t group, int64_t row)>& task);
  // quantized - optimum as seen by the loss: half its gradient. K elements.
  std::vector<double> Gradient(int64_t group, int64_t row) const;
  // Adds what the row's errors cost, with each scale times each of the factors, to `losses`.
  void AddScaleLosses(int64_t group, int64_t row, std::span<const double> factors,
                      std::vector<ScaleLoss>& losses) const;
  std::vector<int64_t> RoundingOrder(int64_t group) const;
  bool CanRefreshScales() const;
  // Of the two values around the target that next to the optimum.
  float RoundAround(size_t element, double target, double optimum) const;
  template <typename Candidates>
  void Descend(int64_t group, int64_t row, const Candidates& candidates);
  bool RefitScales();

  const LinearLayer& layer_;
  const Moments& moments_;
  std::span<const float> original_;
  WeightGrid& grid_;
  const LayerTunerOptions& options_;
  ThreadPool& pool_;
  bool has_bias_ = false;
  bool are_scales_searched_ = false;  // for the present target
  std::vector<float> original_bias_;
  std::vector<double> hessian_;  // [groups, columns, columns], with the ridge
  std::vector<double> cross_;    // [groups, rows, columns], with the ridge
  std::vector<double> target_;   // [groups, rows, columns]
  std::vector<float> quantized_;
  std::vector<float> bias_;
};

// Returns the bytes that learning a layer takes beside its moments: the tuner itself, a copy of
// each group's matrix while gptq or least_squares factor it, and the weight in its forms.
uint64_t TunerBytes(const LinearLayer& layer);

// The mean over positions of |W x + b - y|^2, summed over the outputs. `bias` is what is added to
// the products that y was observed with; `moments` any positions. NaN if there are none.
double MeanSquaredError(const LinearLayer& layer, const Moments& moments,
                        std::span<const float> weights, std::span<const float> bias,
                        ThreadPool& pool);

// The mean over positions of |y - mean y|^2: what the error is measured against.
double OutputVariance(const LinearLayer& layer, const Moments& moments);

// The same behind the layer's activation function, at the positions that were kept. `bias` is the
// layer's, `float_bias` that of the float model. NaN if none were kept.
double ErrorBehindActivation(const LinearLayer& layer, const MomentRows& kept,
                             std::span<const float> weights, std::span<const float> bias,
                             std::span<const float> float_bias, ThreadPool& pool);
double VarianceBehindActivation(const LinearLayer& layer, const MomentRows& kept,
                                std::span<const float> float_bias);

}  // namespace bitpress::finetune
