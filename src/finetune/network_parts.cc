#include "finetune/network_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "emit/apply_plan.h"
#include "emit/tied_tables.h"
#include "finetune/learn_layer.h"

namespace bitpress::finetune {

using graph::Model;

Layers TunableLayers(const Model& float_model, const plan::ResolvedPlan& resolved,
                     const FinetuneOptions& options) {
  const bool corrects_biases =
      std::ranges::count(options.passes, plan::FinetunePass::kBiasCorrection) > 0;
  Layers layers = FindLayers(float_model, resolved.plan,
                             {.with_new_biases = corrects_biases && options.adds_biases});
  // A head that learned has codes of its own, as many as the whole table. Elements of 8 bits lose
  // too little for that.
  constexpr int kLeastSharedBits = 8;
  std::map<std::string, std::string> tied;  // heads and their tables
  for (const auto& [head, table] : emit::FindTiedTables(float_model, resolved)) {
    if (head->Spec().element_bits >= kLeastSharedBits) tied.emplace(head->value, table->value);
  }
  std::erase_if(layers.found, [&](const LinearLayer& layer) {
    const auto table = tied.find(layer.weight);
    if (table == tied.end()) return false;
    layers.left_out.emplace_back(
        layer.weight, fmt::format("it shares the codes of the table '{}'", table->second));
    return true;
  });
  std::erase_if(layers.found, [&](const LinearLayer& layer) {
    const bool is_wanted =
        options.op_types.empty() || std::ranges::count(options.op_types, layer.op_type) > 0;
    if (!is_wanted) {
      layers.left_out.emplace_back(layer.weight,
                                   fmt::format("{} is not in finetune_op_types", layer.op_type));
    }
    return !is_wanted;
  });
  return layers;
}

Model Simulated(Model model, plan::ResolvedPlan resolved, ThreadPool& pool) {
  emit::ApplyOptions apply;
  apply.storage = emit::Storage::kSimulated;
  apply.keeps_interface = true;
  apply.is_portable = false;
  emit::ApplyPlan(model, resolved, apply, pool);
  return model;
}

Model WithFloatWeights(Model float_model, const plan::ResolvedPlan& resolved,
                       bool quantizes_activations, ThreadPool& pool) {
  plan::ResolvedPlan kept = resolved;
  std::erase_if(kept.plan.tensors, [&](const plan::TensorPlan& row) {
    const bool is_kept = row.role == plan::Role::kActivation && quantizes_activations;
    return !is_kept || row.is_dynamic() || (row.uses.empty() && !row.is_graph_output);
  });
  return Simulated(std::move(float_model), std::move(kept), pool);
}

std::vector<std::span<const LinearLayer>> PassesOf(std::span<const std::vector<LinearLayer>> parts,
                                                   const GatherOptions& options) {
  std::vector<std::span<const LinearLayer>> passes;
  for (const std::vector<LinearLayer>& part : parts) {
    std::ranges::copy(GroupLayers(part, options), std::back_inserter(passes));
  }
  return passes;
}

std::vector<float> FloatBiasOf(const Model& float_model, const LinearLayer& layer) {
  if (layer.is_bias_new) {
    return std::vector<float>(static_cast<size_t>(layer.groups * layer.rows));
  }
  return layer.bias.empty() ? std::vector<float>() : BiasOf(float_model, layer);
}

bool Fits(const Model& float_model, const LinearLayer& layer, const LearnedLayer& learned) {
  if (!learned.report.is_tuned) return true;
  const auto num_weights =
      static_cast<size_t>(NumElements(float_model.Initializer(layer.weight).dims));
  const size_t num_biases = FloatBiasOf(float_model, layer).size();
  const auto fits = [&](const LearnedWeights& weights) {
    return weights.weights.size() == num_weights &&
           (weights.bias.size() == num_biases || (weights.bias.empty() && layer.is_bias_new));
  };
  return fits(learned.learned) && std::ranges::all_of(learned.of_halves, fits);
}

LearnedLayer LearnFrom(const Model& float_model, const LinearLayer& layer, LayerSums& sums,
                       bool are_shared, plan::OperatorSet operators,
                       const weights::PairRules& pair_rules, const FinetuneOptions& options,
                       ThreadPool& pool) {
  LayerMoments& moments = sums.Finish();
  if (!layer.fixed_bias.empty()) {
    const std::vector<float> values = FloatsOf(float_model, layer.fixed_bias);
    SubtractBias(layer, values, moments.learned);
    SubtractBias(layer, values, moments.held_back);
  }
  // Weights of float32 are read where they lie.
  const graph::InitializerView view = float_model.Initializer(layer.weight);
  std::vector<float> copy;
  if (view.type != DataType::kFloat) copy = FloatsOf(float_model, layer.weight);
  const std::span<const float> weights =
      view.type == DataType::kFloat ? view.values<float>() : std::span<const float>(copy);
  const std::vector<float> bias = FloatBiasOf(float_model, layer);
  const std::span<const int64_t> dims = view.dims;
  LearnedLayer learned = LearnLayer({.layer = layer,
                                     .weights = weights,
                                     .bias = bias,
                                     .dims = {dims.begin(), dims.end()},
                                     .operators = operators,
                                     .pairs = pair_rules.For(*layer.row),
                                     .passes = options.passes,
                                     .are_moments_shared = are_shared},
                                    moments, options.tuner, pool);
  float_model.ReleaseInitializer(layer.weight);
  return learned;
}

std::string StageOf(const TunedLayerReport& layer) {
  const std::string what = "tune layers: " + NameOf(layer);
  if (!layer.is_tuned) return what + " stays";
  const auto decibels = [](double error) { return -10 * std::log10(std::max(error, 1e-12)); };
  return fmt::format("{} {:.1f} -> {:.1f} dB", what, decibels(layer.error_before),
                     decibels(layer.error_after));
}

}  // namespace bitpress::finetune
