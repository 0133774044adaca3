#include "finetune/finetune.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "finetune/awq.h"
#include "finetune/journal_key.h"
#include "finetune/network_outputs.h"
#include "finetune/network_parts.h"
#include "finetune/observed_network.h"
#include "plan/added_bias.h"

namespace bitpress::finetune {
namespace {

using graph::Model;

class Finetuner {
 public:
  Finetuner(Model& model, plan::ResolvedPlan& resolved, data::Source& source,
            const FinetuneOptions& options, ThreadPool& pool)
      : model_(model),
        plan_(resolved.plan),
        resolved_(resolved),
        source_(source),
        options_(options),
        pool_(pool),
        float_model_(model.Clone()),
        initial_(resolved),
        pair_rules_(resolved.plan, float_model_, resolved.channels) {}

  FinetuneReport Run() {
    Layers layers = TunableLayers(float_model_, resolved_, options_);
    report_.left_out = std::move(layers.left_out);
    layers_ = std::move(layers.found);
    const std::string key = options_.journal.empty() ? ""
                                                     : JournalKey(float_model_, resolved_, options_,
                                                                  source_.Fingerprint());
    LearningJournal journal(options_.journal, key);
    LearnLayers(journal);
    ValidateTogether();
    // Rows stay where they are until the last layer is learned: layers point to them.
    for (const auto& [value, use] : added_biases_) {
      plan::AddBiasRow(resolved_.plan, model_, value, use);
    }
    report_.num_added_biases = added_biases_.size();
    return std::move(report_);
  }

 private:
  void LearnLayers(LearningJournal& journal) {
    // Layers of the journal do not learn again.
    std::set<std::string> missing;  // by their weights
    for (const LinearLayer& layer : layers_) {
      std::optional<LearnedLayer> known = journal.Find(layer.weight);
      if (known && Fits(float_model_, layer, *known)) {
        Take(layer, std::move(*known));
        ++report_.num_resumed;
      } else {
        missing.insert(layer.weight);
      }
    }
    if (missing.empty()) return;
    report_.num_samples = source_.num_samples();
    const Model float_model = WithFloatWeights(float_model_.Clone(), resolved_, false, pool_);
    const Model quantized = WithFloatWeights(float_model_.Clone(), resolved_, true, pool_);
    // The pieces of the network, and the layers of a pass, are those of a run that was not stopped:
    // ONNX Runtime fuses other operators if others are observed, and rounds otherwise then.
    ObservedNetwork network(float_model, quantized, layers_, source_, options_.gather);
    const std::vector<std::vector<LinearLayer>> parts = network.Parts();
    std::vector<std::span<const LinearLayer>> passes = PassesOf(parts, options_.gather);
    std::erase_if(passes, [&](std::span<const LinearLayer> pass) {
      return std::ranges::none_of(
          pass, [&](const LinearLayer& layer) { return missing.contains(layer.weight); });
    });
    for (size_t i = 0; i < passes.size(); ++i) {
      GatherOptions gather = options_.gather;
      if (passes.size() > 1) gather.stage += fmt::format(", pass {} of {}", i + 1, passes.size());
      std::vector<std::shared_ptr<LayerSums>> sums = GatherMoments(network, passes[i], gather);
      for (size_t k = 0; k < passes[i].size(); ++k) {
        if (missing.contains(passes[i][k].weight)) {
          LearnedLayer learned =
              LearnFrom(float_model_, passes[i][k], *sums[k], sums[k].use_count() > 1,
                        plan_.operators, pair_rules_, options_, pool_);
          journal.Add(learned);
          Take(passes[i][k], std::move(learned));
        }
        sums[k].reset();  // as much memory less
      }
    }
  }

  // Writes learned weights into a model and its plan.
  static void Write(const LinearLayer& layer, const LearnedWeights& learned, Model& model,
                    plan::ResolvedPlan& resolved) {
    SetFloats(model, layer.weight, learned.weights);
    if (!layer.is_bias_new && !layer.bias.empty()) SetBias(model, layer, learned.bias);
    if (layer.is_bias_new && !learned.bias.empty()) AddBias(model, layer, learned.bias);
    if (!learned.params.empty()) {
      resolved.weight_scales[plan::ScaleKeyOf(*layer.row)] = learned.params;
    }
  }

  void Take(const LinearLayer& layer, LearnedLayer learned) {
    if (learned.report.is_tuned) {
      Write(layer, learned.learned, model_, resolved_);
      if (layer.is_bias_new && !learned.learned.bias.empty()) {
        added_biases_.push_back({layer.bias, {layer.node(), layer.op_type, 2}});
      }
      for (size_t half = 0; half < learned.of_halves.size(); ++half) {
        if (!of_halves_[half]) of_halves_[half].emplace(float_model_.Clone(), initial_);
        auto& [model, resolved] = *of_halves_[half];
        Write(layer, learned.of_halves[half], model, resolved);
      }
    }
    report_.layers.push_back(learned.report);
    if (options_.gather.progress) {
      options_.gather.progress(StageOf(learned.report), report_.layers.size(), layers_.size());
    }
  }

  // Compares the network's outputs with learned weights and without. Undoes everything if they do
  // not come closer to those of the float model.
  void ValidateTogether() {
    if (options_.gather.hold_back_every == 0) return;
    if (std::ranges::none_of(report_.layers, &TunedLayerReport::is_tuned)) return;
    GatherOptions options = options_.gather;
    options.stage = "validate the network";
    const size_t every = options.hold_back_every;
    // One part of the samples validates what was learned from the other.
    const bool has_halves = of_halves_[0].has_value();
    Split split = Split::kHeldBack;
    if (has_halves) split = source_.num_samples() == 1 ? Split::kPositions : Split::kHalves;
    const auto validates = [=](bool by_held_back) {
      return [=](size_t run) {
        return split == Split::kPositions || IsHeldBack(run, split, every) == by_held_back;
      };
    };
    std::function<bool(size_t run)> any = validates(true);
    if (has_halves) any = [](size_t) { return true; };
    NetworkOutputs wanted(float_model_, source_, options);
    const std::vector<OutputErrors> untuned =
        wanted.ErrorsOf(Simulated(float_model_.Clone(), initial_, pool_), any);
    std::vector<OutputErrors> before;
    std::vector<OutputErrors> after;
    for (size_t half = 0; half < (has_halves ? 2 : 1); ++half) {
      Model model = has_halves ? std::move(of_halves_[half]->first) : model_.Clone();
      plan::ResolvedPlan resolved = has_halves ? std::move(of_halves_[half]->second) : resolved_;
      const std::vector<OutputErrors> tuned = wanted.ErrorsOf(
          Simulated(std::move(model), std::move(resolved), pool_), validates(half == 0));
      before.insert(before.end(), untuned.begin(), untuned.end());
      after.insert(after.end(), tuned.begin(), tuned.end());
    }
    // Halves of one sample's positions share much.
    report_.network = ValidateNetwork(before, after, split == Split::kPositions ? 1 : 0);
    if (!report_.network->is_refused()) return;
    model_ = float_model_.Clone();
    resolved_.weight_scales = initial_.weight_scales;
    added_biases_.clear();
    for (TunedLayerReport& layer : report_.layers) {
      if (!layer.is_tuned) continue;
      layer.is_tuned = false;
      layer.error_after = layer.error_before;
      layer.note = report_.network->num_lost_runs > 0
                       ? "it stays as rounded, because the network's outputs held NaN or infinity"
                       : "it stays as rounded, because the network's outputs did not come closer";
    }
  }

  Model& model_;
  const plan::QuantPlan& plan_;
  plan::ResolvedPlan& resolved_;
  data::Source& source_;
  const FinetuneOptions& options_;
  ThreadPool& pool_;
  Model float_model_;
  const plan::ResolvedPlan initial_;
  weights::PairRules pair_rules_;
  std::vector<LinearLayer> layers_;  // in graph order
  // The float model and its plan with what was learned from each half of the samples.
  std::array<std::optional<std::pair<Model, plan::ResolvedPlan>>, 2> of_halves_;
  std::vector<std::pair<std::string, plan::TensorUse>> added_biases_;
  FinetuneReport report_;
};

// Blocks keep the scales that they find. One scale of integers of four bits for a whole output, or
// for a tensor, is worth a search that knows the inputs.
bool NeedsClipSearch(const plan::QuantPlan& plan, std::span<const plan::FinetunePass> passes) {
  if (passes.size() != 1 || passes[0] != plan::FinetunePass::kBlocks) return false;
  return std::ranges::any_of(plan.tensors, [](const plan::TensorPlan& row) {
    constexpr int kFewBits = 4;
    return row.role == plan::Role::kWeight && row.integer && row.Spec().element_bits <= kFewBits &&
           row.integer->granularity != plan::Granularity::kPerBlock;
  });
}

}  // namespace

size_t FinetuneReport::NumValidatedOn(ValidatedOn samples) const {
  return static_cast<size_t>(std::ranges::count(layers, samples, &TunedLayerReport::validated_on));
}

Finetuned Finetune(graph::Model& model, plan::ResolvedPlan resolved, data::Source& source,
                   const FinetuneOptions& options, ThreadPool& pool) {
  FinetuneOptions learn = options;
  if (NeedsClipSearch(resolved.plan, learn.passes)) {
    learn.passes.insert(learn.passes.begin(), plan::FinetunePass::kClipSearch);
  }
  rewrite::SmoothReport scaled;
  if (std::erase(learn.passes, plan::FinetunePass::kAwq) > 0) {
    GatherOptions gather = options.gather;
    gather.stage = "observe channels";
    gather.is_for_tuner = false;
    scaled = ScaleChannels(model, resolved.plan, source, gather, pool);
  }
  FinetuneReport report;
  const auto num_block_passes = std::ranges::count(learn.passes, plan::FinetunePass::kBlocks);
  const bool has_others = std::ssize(learn.passes) > num_block_passes;
  if (num_block_passes == 0) {
    if (has_others) report = Finetuner(model, resolved, source, learn, pool).Run();
  } else {
    const Model float_model = model.Clone();
    // Both write to one journal, and so under one key.
    std::string key;
    if (!learn.journal.empty()) key = JournalKey(model, resolved, learn, source.Fingerprint());
    if (has_others) report = Finetuner(model, resolved, source, learn, pool).Run();
    report.blocks = TuneBlocks(model, float_model, resolved, source, learn, key, pool);
  }
  report.scaled = std::move(scaled);
  return {std::move(resolved), std::move(report)};
}

}  // namespace bitpress::finetune
