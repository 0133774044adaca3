#include "finetune/learn_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "finetune/validation_splits.h"
#include "finetune/weight_grid.h"

namespace bitpress::finetune {
namespace {

using plan::FinetunePass;

// Shares of a bias correction that are tried. Few samples know the mean of an error badly.
constexpr std::array<double, 3> kShares{1, 0.5, 0};
// Learned weights must have an error below this share of that of rounding to nearest. Gains that
// are smaller are too uncertain.
constexpr double kMostLearnedError = 0.98;

// Weights that a pass offers.
struct Offer {
  std::string name;
  LearnedWeights weights;      // with the whole correction of the bias
  std::vector<double> errors;  // sums over the validation positions, one for each share of the bias
};

// The choice among offers.
struct Choice {
  size_t offer = 0;
  size_t share = 0;
  double error = std::numeric_limits<double>::infinity();  // sum over all splits
};

class Learner {
 public:
  Learner(const LayerTask& task, LayerMoments& moments, const LayerTunerOptions& options,
          ThreadPool& pool)
      : task_(task),
        layer_(task.layer),
        moments_(moments),
        options_(options),
        pool_(pool),
        grid_(*layer_.row, task.operators, task.dims,
              fmt::format("{} '{}'", layer_.op_type, layer_.node()), task.pairs) {
    options_.corrects_bias = Has(FinetunePass::kBiasCorrection);
    grid_.KeepSignOf(task_.weights);
  }

  LearnedLayer Run() {
    TunedLayerReport& report = learned_.report;
    report.node = layer_.node();
    report.op_type = layer_.op_type;
    report.weight = layer_.weight;
    report.format = layer_.row->format;
    splits_ = MakeValidationSplits(layer_, moments_, options_.ridge, has_free_bias(), report);
    if (splits_.empty()) return std::move(learned_);
    const double unit = Unit();
    std::vector<double> before;
    {
      const std::vector<float> direct = grid_.Quantize(task_.weights, pool_).values;
      for (const ValidationSplit& split : splits_)
        before.push_back(ErrorsOf(direct, {Bias()}, *split.validation)[0]);
    }
    const double error_before = Sum(before);
    report.error_before = report.error_after = error_before / unit;
    ChooseAim();
    std::vector<std::vector<Offer>> offers;
    for (const ValidationSplit& split : splits_) {
      offers.push_back(RunPasses(split, std::numeric_limits<size_t>::max()));
    }
    const Choice choice = Choose(offers);
    if (!IsBetter(offers, choice, before)) {
      report.note =
          fmt::format(
              "it stays as rounded, because what was learned is no better on {}: error {:.3g}, "
              "now {:.3g}",
              SamplesOf(report.validated_on), choice.error / unit, report.error_before) +
          (report.note.empty() ? "" : "; " + report.note);
      return std::move(learned_);
    }
    report.is_tuned = true;
    report.error_after = choice.error / unit;
    Take(offers, choice);
    return std::move(learned_);
  }

 private:
  bool Has(FinetunePass pass) const { return std::ranges::count(task_.passes, pass) > 0; }
  std::vector<float> Bias() const { return {task_.bias.begin(), task_.bias.end()}; }

  bool has_free_bias() const { return !task_.bias.empty() && options_.corrects_bias; }

  LayerTuner MakeTuner(const ValidationSplit& split) {
    split_options_ = options_;
    split_options_.ridge = split.ridge;
    split_options_.aim_ridge = aim_ridge_;
    split_options_.aim_share = aim_share_;
    return {layer_, *split.training, task_.weights, task_.bias, grid_, split_options_, pool_};
  }

  // Returns the variance of the outputs, times the number of validation positions.
  double Unit() const {
    double count = 0;
    std::vector<const Moments*> validation;
    for (const ValidationSplit& split : splits_) {
      validation.push_back(split.validation);
      count += static_cast<double>(split.validation->num_positions);
    }
    const double sum = OutputVariance(layer_, validation, task_.weights, pool_) * count;
    return sum > 0 ? sum : count;
  }

  // Returns the errors of weights with each of these biases, summed over the validation positions.
  std::vector<double> ErrorsOf(std::span<const float> weights,
                               std::vector<std::vector<float>> biases, const Moments& validation) {
    // The observed outputs do not contain a bias that a node behind the layer adds, and changes
    // count where they are not observed.
    const bool is_change = layer_.is_bias_behind || !validation.has_outputs;
    for (std::vector<float>& bias : biases) {
      for (size_t i = 0; is_change && i < bias.size(); ++i) bias[i] -= task_.bias[i];
    }
    std::vector<double> errors =
        validation.has_outputs
            ? MeanSquaredErrors(layer_, validation, weights, biases, pool_)
            : MeanSquaredChanges(layer_, validation, weights, task_.weights, biases, pool_);
    for (double& error : errors) error *= static_cast<double>(validation.num_positions);
    return errors;
  }

  static double Sum(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }

  // Returns the shares of the bias correction that are tried.
  std::span<const double> Shares() const {
    return std::span(kShares).first(has_free_bias() ? kShares.size() : 1);
  }

  // Returns a share of the correction of the bias. Empty: a layer without a bias needs none.
  std::vector<float> ShareOf(double share, std::span<const float> corrected) const {
    if (layer_.is_bias_new && share == 0) return {};
    std::vector<float> bias = Bias();
    for (size_t i = 0; i < bias.size(); ++i) {
      bias[i] =
          static_cast<float>(double{bias[i]} + share * (double{corrected[i]} - double{bias[i]}));
    }
    return bias;
  }
  std::vector<std::vector<float>> SharesOf(std::span<const float> corrected) const {
    std::vector<std::vector<float>> biases;
    for (const double share : Shares()) {
      biases.push_back(share == 1 ? std::vector(corrected.begin(), corrected.end())
                                  : ShareOf(share, corrected));
    }
    return biases;
  }

  // Chooses the ridge and the share of the aim: the real weights whose error is the least on the
  // validation positions. The ridge grows as long as they get better.
  void ChooseAim() {
    constexpr double kTooLittle = 0.01;
    constexpr double kClearGain = 0.9;
    const bool needs_aim = Has(FinetunePass::kLeastSquares) || Has(FinetunePass::kAdaRound) ||
                           Has(FinetunePass::kAdaQuant);
    if (!needs_aim || learned_.report.validated_on == ValidatedOn::kLearned) return;
    if (!moments_.learned.has_outputs) {  // least squares give the float weights back
      aim_ridge_ = options_.ridge;
      aim_share_ = 0;
      return;
    }
    const auto error_with = [&](std::optional<double> ridge, double share) {
      aim_ridge_ = ridge;
      aim_share_ = share;
      std::vector<double> errors(Shares().size());
      for (const ValidationSplit& split : splits_) {
        LayerTuner tuner = MakeTuner(split);
        tuner.LeastSquares();
        tuner.TakeTarget();
        if (options_.corrects_bias) tuner.CorrectBias();
        const std::vector<double> more =
            ErrorsOf(tuner.quantized(), SharesOf(tuner.bias()), *split.validation);
        for (size_t i = 0; i < errors.size(); ++i) errors[i] += more[i];
      }
      return std::ranges::min(errors);
    };
    constexpr double kStep = 16;
    constexpr double kMostAimRidge = 1e5;
    double best_ridge = options_.ridge;
    double best_share = 0;
    const double without = error_with(best_ridge, 0);
    double least = without;
    double before = std::numeric_limits<double>::infinity();
    for (double ridge = options_.ridge; ridge < kMostAimRidge; ridge *= kStep) {
      const double error = error_with(ridge, 1);
      if (!(error < before)) break;
      before = error;
      if (std::abs(error - without) < kTooLittle * without) break;  // it holds the aim at W0
      if (!(error < least)) continue;
      least = error;
      best_ridge = ridge;
      best_share = 1;
    }
    // Half of a small gain may be more certain than all of it.
    if (best_share == 1 && least > kClearGain * without && error_with(best_ridge, 0.5) < least) {
      best_share = 0.5;
    }
    aim_ridge_ = best_ridge;
    aim_share_ = best_share;
  }

  // Runs the passes until there are this many offers, and returns those.
  std::vector<Offer> RunPasses(const ValidationSplit& split, size_t most_offers) {
    LayerTuner tuner = MakeTuner(split);
    std::vector<Offer> offers;
    bool is_rounded = false;
    const auto round = [&] {
      if (is_rounded) return;
      tuner.RoundToNearest();
      is_rounded = true;
    };
    const auto offer = [&](FinetunePass pass) {
      if (options_.corrects_bias) tuner.CorrectBias();
      Offer made{plan::FinetunePassNames({pass}), {}, {}};
      QuantizedWeight tuned = grid_.Quantize(tuner.quantized(), pool_);
      made.weights = {std::move(tuned.values),
                      {tuner.bias().begin(), tuner.bias().end()},
                      std::move(tuned.params)};
      made.errors = ErrorsOf(made.weights.weights, SharesOf(made.weights.bias), *split.validation);
      offers.push_back(std::move(made));
    };
    for (const FinetunePass pass : task_.passes) {
      if (offers.size() >= most_offers) return offers;
      switch (pass) {
        case FinetunePass::kAwq:     // ScaleChannels has done it to the model
        case FinetunePass::kBlocks:  // it learns when all layers have
          continue;
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
          if (!Has(FinetunePass::kLeastSquares)) tuner.LearnAim();
          tuner.AdaRound();
          break;
        case FinetunePass::kAdaQuant:
          round();
          if (!Has(FinetunePass::kLeastSquares)) tuner.LearnAim();
          tuner.AdaQuant();
          break;
        case FinetunePass::kBiasCorrection:
          if (is_rounded) continue;  // every offer has corrected biases already
          round();
          break;
      }
      offer(pass);
    }
    if (!is_rounded) {
      round();
      offer(FinetunePass::kLeastSquares);
    }
    return offers;
  }

  // Returns the offer with the least error in all splits. `offers` has as many for each.
  Choice Choose(std::span<const std::vector<Offer>> offers) const {
    Choice best;
    for (size_t i = 0; i < offers[0].size(); ++i) {
      for (size_t share = 0; share < Shares().size(); ++share) {
        double error = 0;
        for (const std::vector<Offer>& of_split : offers) error += of_split[i].errors[share];
        if (error < best.error) best = {i, share, error};
      }
    }
    return best;
  }

  // Returns whether the choice is better than weights rounded to nearest, in every split.
  static bool IsBetter(std::span<const std::vector<Offer>> offers, const Choice& choice,
                       std::span<const double> before) {
    if (!(choice.error < kMostLearnedError * Sum(before))) return false;
    for (size_t split = 0; split < before.size(); ++split) {
      if (!(offers[split][choice.offer].errors[choice.share] < before[split])) return false;
    }
    return true;
  }

  void Take(std::vector<std::vector<Offer>>& offers, const Choice& choice) {
    const double share = Shares()[choice.share];
    const auto weights_of = [&](Offer& offer) {
      LearnedWeights weights = std::move(offer.weights);
      if (share < 1) weights.bias = ShareOf(share, weights.bias);
      return weights;
    };
    TunedLayerReport& report = learned_.report;
    report.taken_from = offers[0][choice.offer].name;
    double ridge = splits_[0].ridge;
    if (splits_.size() == 1) {
      learned_.learned = weights_of(offers[0][choice.offer]);
    } else {
      for (std::vector<Offer>& of_split : offers) {
        learned_.of_halves.push_back(weights_of(of_split[choice.offer]));
        of_split.clear();
      }
      Moments sum;  // layers that share their moments must not find them changed
      ValidationSplit both = splits_[0];
      if (task_.are_moments_shared) {
        sum = SumOf(moments_.learned, moments_.held_back);
        both.training = &sum;
      } else {
        AddMoments(moments_.held_back, moments_.learned);
      }
      ridge = both.ridge = splits_[0].ridge_of_both;
      std::vector<Offer> of_both = RunPasses(both, choice.offer + 1);
      learned_.learned = weights_of(of_both[choice.offer]);
    }
    report.choice = fmt::format("ridge {:.2g}", ridge);
    if (aim_ridge_) {
      report.choice += aim_share_ == 0 ? ", no least squares"
                                       : fmt::format(", {} of least squares with ridge {:.2g}",
                                                     aim_share_ == 1 ? "all" : "half", *aim_ridge_);
    }
    if (has_free_bias() && share < 1) {
      report.choice += share == 0 ? ", no bias correction" : ", half of the bias correction";
    }
  }

  const LayerTask& task_;
  const LinearLayer& layer_;
  LayerMoments& moments_;
  LayerTunerOptions options_;
  LayerTunerOptions split_options_;  // options of the present tuner
  ThreadPool& pool_;
  WeightGrid grid_;
  std::vector<ValidationSplit> splits_;
  std::optional<double> aim_ridge_;
  double aim_share_ = 1;
  LearnedLayer learned_;
};

}  // namespace

LearnedLayer LearnLayer(const LayerTask& task, LayerMoments& moments,
                        const LayerTunerOptions& options, ThreadPool& pool) {
  return Learner(task, moments, options, pool).Run();
}

}  // namespace bitpress::finetune
