// Learns the weights of one layer from its second moments. LayerTuner has one method for each pass
// of fine-tuning; LearnLayer (learn_layer.h) calls them in the order of a recipe.
//
// A tuner's state is the `target`, the real numbers that the weights should have, and `quantized`,
// the values of the grid that they get. Every pass continues with the state that the pass before
// left, and tries to lower the quadratic loss
//
//     |(W - T) x|^2 + ridge |W - T|^2.
//
// T is the aim: real weights near W0, the weights of the float model (LearnAim). The second term
// decides what the samples leave open: weights of channels that are always 0, or layers with fewer
// samples than weights. With a large ridge all passes round to nearest. Results do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "finetune/layer.h"
#include "finetune/moments.h"
#include "finetune/weight_grid.h"

namespace bitpress::finetune {

struct LayerTunerOptions {
  // The ridge of the loss, as a share of the mean square of the inputs.
  double ridge = 0.01;
  // The ridge that LearnAim holds the aim at W0 with, likewise, and the share of the way from W0 to
  // the weights of least squares that it goes. Noise in what is learned needs a larger ridge than
  // noise in the inputs' moments does. Without a value, the ridge is that of the loss.
  std::optional<double> aim_ridge = std::nullopt;
  double aim_share = 1;
  // AdaRound and AdaQuant: most rounds over all weights.
  int num_rounds = 20;
  // GPTQ: the weights of inputs with large squares are rounded first.
  bool activation_order = true;
  // GPTQ: scales are chosen anew, see plan::FinetuneSettings.
  bool refresh_scales = false;
  // True if CorrectBias follows. Then the means of errors do not count, because the bias takes them
  // out. Otherwise the bias stays that of the float model, and the means count.
  bool corrects_bias = true;
};

// Learns the weights of one layer. Not thread-safe; its methods run on the pool.
class LayerTuner {
 public:
  // `moments` are those to learn from. `weights` and `bias` (empty: none) are the float model's, in
  // the layout of the model. `grid` has the weight's format. All must outlive the tuner.
  // REQUIRES: `weights` has the elements of the layer's weight, `bias` none or one for each output.
  LayerTuner(const LinearLayer& layer, const Moments& moments, std::span<const float> weights,
             std::span<const float> bias, WeightGrid& grid, const LayerTunerOptions& options,
             ThreadPool& pool);

  // Sets the target to the aim. Learns the aim first, if LearnAim was not called.
  void LeastSquares();
  // Sets the aim T to W0 + aim_share (L - W0), where L has the smallest |L x + b - y|^2 + aim_ridge
  // |L - W0|^2. Before, T = L for the ridge of the loss, which needs no equations to be solved. If
  // the moments have no outputs, y is what W0 makes of x, and T = W0.
  void LearnAim();
  // Sets `quantized` to the target without rounding, to find out what rounding costs.
  void TakeTarget();
  // Rounds the target to nearest. Fits the scales to the target first, unless SearchScales or Gptq
  // has chosen them.
  void RoundToNearest();
  // Chooses each scale among a few around the one that fits the target, and rounds the target to
  // nearest. The chosen scale is the one whose rounding errors change the outputs least. Errors of
  // inputs that lie far apart, or have different scales, count as independent.
  void SearchScales();
  // Rounds the target one weight after another, each of which compensates the rounding errors of
  // those before it (Frantar et al., "GPTQ", 2022, in the form of Babai's nearest plane; Chen et
  // al., 2025).
  void Gptq();
  // Rounds each weight to one of the two values around the target, with a smaller loss. AdaRound
  // (Nagel et al., 2020) learns that choice by gradients; this finds it by descent over the
  // weights.
  void AdaRound();
  // Moves weights to any values of the grid, with a smaller loss, as AdaQuant (Hubara et al., 2020)
  // does. Integers with one scale for each output or for the tensor get new scales too.
  void AdaQuant();
  // Sets the bias so that the mean output is that of the float model. Does nothing for layers
  // without a bias.
  void CorrectBias();

  std::span<const float> quantized() const { return quantized_; }  // in the layout of the model
  std::span<const float> bias() const { return bias_; }

 private:
  // The loss of the elements of one row that share a scale, with that scale times a factor.
  struct ScaleLoss {
    size_t scale;
    size_t factor;  // index of the factor
    double loss;
  };
  double TargetOf(int64_t group, int64_t row, int64_t column) const {
    if (target_.empty()) return double{original_[layer_.ElementOf(group, row, column)]};
    return target_[static_cast<size_t>((group * layer_.rows + row) * layer_.columns + column)];
  }
  // Takes a bias of an output. If all weights have one sign, a bias that has it keeps it, too.
  void SetBias(size_t output, double bias);
  // Computes cross_, unless LearnAim has.
  void PrepareCross();
  const double* Hessian(int64_t group) const {
    return hessian_.data() + group * layer_.columns * layer_.columns;
  }
  double Value(int64_t group, int64_t row, int64_t column) const {
    return double{quantized_[layer_.ElementOf(group, row, column)]};
  }
  void ForEachRow(const std::function<void(int64_t group, int64_t row)>& task);
  // Returns half the gradient of the loss with respect to one row, layer.columns elements.
  std::vector<double> Gradient(int64_t group, int64_t row) const;
  // Appends to `losses` the loss of the row's rounding errors, for each scale and each factor.
  void AddScaleLosses(int64_t group, int64_t row, std::span<const double> factors,
                      std::vector<ScaleLoss>& losses) const;
  // Returns the columns in the order of GPTQ: the last one is rounded first.
  std::vector<int64_t> RoundingOrder(int64_t group) const;
  // Returns whether GPTQ may choose scales anew: the options ask for it, there are several factors
  // to choose from, no two rows share a scale, and columns that share one are neighbours.
  bool CanRefreshScales() const;
  // Returns the one of the two values around the target that is nearer to the optimum.
  float RoundAround(size_t element, double target, double optimum) const;
  // Changes one weight of the row at a time to the value with the smallest loss while all others
  // stay, until none changes. `candidates(column, element, optimum)` returns the allowed value next
  // to the optimum.
  template <typename Candidates>
  void Descend(int64_t group, int64_t row, const Candidates& candidates);
  // Sets the scales to those with the smallest loss for the present codes. Returns whether any
  // changed.
  bool RefitScales();

  const LinearLayer& layer_;
  const Moments& moments_;
  std::span<const float> original_;
  WeightGrid& grid_;
  const LayerTunerOptions& options_;
  ThreadPool& pool_;
  bool has_bias_ = false;
  bool are_scales_searched_ = false;  // SearchScales or Gptq chose them for the present target
  std::vector<float> original_bias_;
  std::vector<double> ridges_;   // ridge of each group, not as a share
  std::vector<double> hessian_;  // [groups, columns, columns], with the ridge
  // [groups, rows, columns]: the aim times the hessian. Empty before it is needed.
  std::vector<double> cross_;
  std::vector<double> target_;  // [groups, rows, columns]; empty: the float model's weights
  std::vector<double> aim_;     // [groups, rows, columns]; empty before LearnAim
  std::vector<float> quantized_;
  std::vector<float> bias_;
};

// Returns the bytes that learning a layer takes beside its moments: the tuner, a copy of each
// group's matrix while GPTQ or least squares factor it, and several copies of the weight.
uint64_t TunerBytes(const LinearLayer& layer);

// Returns the mean over positions of |W x + b - y|^2, summed over the outputs. NaN if `moments`
// have no positions. `bias` (empty: none) is b. If a node behind the layer adds the bias, y does
// not contain it, and b is the change from the float model's bias.
double MeanSquaredError(const LinearLayer& layer, const Moments& moments,
                        std::span<const float> weights, std::span<const float> bias,
                        ThreadPool& pool);
// Returns the mean over positions of |(W - W0) x + c|^2, summed over the outputs: the error of
// weights W if y is what the weights W0 (empty: zeros) make of x. There is one result for each of
// the `changes` (empty: zeros) c of the bias. NaN if `moments` have no positions.
std::vector<double> MeanSquaredChanges(const LinearLayer& layer, const Moments& moments,
                                       std::span<const float> weights,
                                       std::span<const float> original,
                                       std::span<const std::vector<float>> changes,
                                       ThreadPool& pool);
// Returns the error with each of several biases, for little more work than with one.
// REQUIRES: `moments` have outputs, as for MeanSquaredError.
std::vector<double> MeanSquaredErrors(const LinearLayer& layer, const Moments& moments,
                                      std::span<const float> weights,
                                      std::span<const std::vector<float>> biases, ThreadPool& pool);

// Returns the mean over positions of |y - mean y|^2, summed over the outputs, of all `moments`
// together. Errors are reported as a share of it. If the moments have no outputs, y is what
// `original` makes of x.
double OutputVariance(const LinearLayer& layer, std::span<const Moments* const> moments,
                      std::span<const float> original, ThreadPool& pool);

}  // namespace bitpress::finetune
