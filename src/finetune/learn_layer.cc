#include "finetune/learn_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "finetune/weight_grid.h"

namespace bitpress::finetune {
namespace {

using plan::FinetunePass;

class Learner {
 public:
  Learner(const LayerTask& task, const LayerMoments& moments, const LayerTunerOptions& options,
          ThreadPool& pool)
      : task_(task),
        layer_(task.layer),
        moments_(moments),
        options_(options),
        pool_(pool),
        is_held_back_(moments.held_back.num_positions > 0),
        judge_(is_held_back_ ? moments.held_back : moments.learned),
        grid_(*layer_.row, task.operators, task.dims,
              fmt::format("{} '{}'", layer_.op_type, layer_.node()), task.pairs) {
    options_.corrects_bias = Has(FinetunePass::kBiasCorrection);
  }

  LearnedLayer Run() {
    TunedLayerReport& report = learned_.report;
    report.node = layer_.node();
    report.op_type = layer_.op_type;
    report.weight = layer_.weight;
    report.format = layer_.row->format;
    const int64_t num_skipped = moments_.learned.num_skipped + moments_.held_back.num_skipped;
    if (moments_.learned.num_positions == 0) {
      report.note = num_skipped > 0 ? "every position held NaN or infinity" : "it never ran";
      return std::move(learned_);
    }
    report.judge = is_held_back_ ? Judge::kHeldBack : Judge::kLearned;
    if (num_skipped > 0) {
      report.note = fmt::format("{} positions with NaN or infinity left out", num_skipped);
    }
    const double variance = IsJudgedBehindActivation()
                                ? VarianceBehindActivation(layer_, judge_.kept, task_.bias)
                                : OutputVariance(layer_, judge_);
    unit_ = variance > 0 ? variance : 1;
    report.error_before = ErrorOf(grid_.Quantize(task_.weights, pool_).values, task_.bias);
    report.error_after = report.error_before;
    ChooseRidge();
    RunPasses();
    if (!report.is_tuned && report.note.empty()) {
      report.note = fmt::format("what was learned is worse: error {:.3g}, now {:.3g}", least_error_,
                                report.error_before);
    }
    return std::move(learned_);
  }

 private:
  bool Has(FinetunePass pass) const { return std::ranges::count(task_.passes, pass) > 0; }

  LayerTuner MakeTuner() {
    return {layer_, moments_.learned, task_.weights, task_.bias, grid_, options_, pool_};
  }

  bool IsJudgedBehindActivation() const { return layer_.activation && judge_.kept.count > 0; }

  // Returns the error of weights and bias on the positions that judge, as a share of the variance
  // of the outputs.
  double ErrorOf(std::span<const float> weights, std::span<const float> bias) {
    if (IsJudgedBehindActivation()) {
      return ErrorBehindActivation(layer_, judge_.kept, weights, bias, task_.bias, pool_) / unit_;
    }
    // The observed outputs do not contain a bias that a node behind the layer adds.
    std::vector<float> added(bias.begin(), bias.end());
    if (layer_.is_bias_behind) {
      for (size_t i = 0; i < added.size(); ++i) added[i] -= task_.bias[i];
    }
    return MeanSquaredError(layer_, judge_, weights, added, pool_) / unit_;
  }

  // Multiplies the ridge as long as the real weights that it leads to get better. Layers with more
  // inputs than the samples can tell apart need large ridges.
  void ChooseRidge() {
    if (!is_held_back_) return;
    if (!Has(FinetunePass::kLeastSquares) && !Has(FinetunePass::kAdaQuant)) return;
    constexpr std::array<double, 4> kFactors{1, 4, 16, 64};
    const double start = options_.ridge;
    double least = 0;
    for (const double factor : kFactors) {
      const double before = options_.ridge;
      options_.ridge = start * factor;
      LayerTuner tuner = MakeTuner();
      tuner.LeastSquares();
      tuner.TakeTarget();
      if (options_.corrects_bias) tuner.CorrectBias();
      const double error = ErrorOf(tuner.quantized(), tuner.bias());
      if (factor > 1 && !(error < least)) {
        options_.ridge = before;
        return;
      }
      least = error;
    }
  }

  void RunPasses() {
    LayerTuner tuner = MakeTuner();
    bool is_rounded = false;
    const auto round = [&] {
      if (is_rounded) return;
      tuner.RoundToNearest();
      is_rounded = true;
    };
    for (const FinetunePass pass : task_.passes) {
      switch (pass) {
        case FinetunePass::kAwq:
          continue;  // ScaleChannels has done it to the model
        case FinetunePass::kClipSearch:
          tuner.SearchScales();
          is_rounded = true;
          break;
        case FinetunePass::kLeastSquares:
          tuner.LeastSquares();
          is_rounded = false;
          continue;
        case FinetunePass::kGptq:
          tuner.Gptq();
          is_rounded = true;
          break;
        case FinetunePass::kAdaRound:
          round();
          tuner.AdaRound();
          OfferBehindActivation(tuner, pass);
          continue;
        case FinetunePass::kAdaQuant:
          round();
          tuner.AdaQuant();
          OfferBehindActivation(tuner, pass);
          continue;
        case FinetunePass::kBiasCorrection:
          if (is_rounded) continue;  // every offer has corrected biases already
          round();
          break;
      }
      Offer(tuner, pass);
    }
    if (!is_rounded) {
      round();
      Offer(tuner, FinetunePass::kLeastSquares);
    }
  }

  void Offer(LayerTuner& tuner, FinetunePass pass) {
    if (Has(FinetunePass::kBiasCorrection)) tuner.CorrectBias();
    Take(tuner, plan::FinetunePassNames({pass}));
  }

  // Offers the weights as they are, and, if an activation function stands behind the layer, the
  // weights learned with that function in the loss.
  void OfferBehindActivation(LayerTuner& tuner, FinetunePass pass) {
    Offer(tuner, pass);
    if (!layer_.activation || moments_.learned.kept.count == 0) return;
    tuner.LearnBehindActivation(pass == FinetunePass::kAdaRound ? LayerTuner::Freedom::kAroundTarget
                                                                : LayerTuner::Freedom::kAnyValue);
    if (Has(FinetunePass::kBiasCorrection)) tuner.CorrectBiasBehindActivation();
    Take(tuner, plan::FinetunePassNames({pass}) + " behind the activation function");
  }

  // Takes the tuner's present weights and bias if they are the best so far.
  void Take(LayerTuner& tuner, std::string name) {
    QuantizedWeight tuned = grid_.Quantize(tuner.quantized(), pool_);
    std::vector<float> bias(tuner.bias().begin(), tuner.bias().end());
    double error = ErrorOf(tuned.values, bias);
    if (layer_.is_bias_new) {
      const double without = ErrorOf(tuned.values, {});
      if (!(error < without)) {
        error = without;
        bias.clear();
      }
    }
    least_error_ = has_offer_ ? std::min(least_error_, error) : error;
    has_offer_ = true;
    if (!(error < learned_.report.error_after)) return;
    learned_.report.is_tuned = true;
    learned_.report.error_after = error;
    learned_.report.taken_from = std::move(name);
    learned_.weights = std::move(tuned.values);
    learned_.bias = std::move(bias);
    learned_.params = std::move(tuned.params);
  }

  const LayerTask& task_;
  const LinearLayer& layer_;
  const LayerMoments& moments_;
  LayerTunerOptions options_;
  ThreadPool& pool_;
  const bool is_held_back_;  // the judging samples are not learned from
  const Moments& judge_;
  WeightGrid grid_;
  double unit_ = 1;
  bool has_offer_ = false;
  double least_error_ = 0;  // smallest error of all offers
  LearnedLayer learned_;
};

}  // namespace

LearnedLayer LearnLayer(const LayerTask& task, const LayerMoments& moments,
                        const LayerTunerOptions& options, ThreadPool& pool) {
  return Learner(task, moments, options, pool).Run();
}

}  // namespace bitpress::finetune
