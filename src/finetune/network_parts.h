// The parts of a network that fine-tuning works on: the layers that it can learn, the networks that
// they are observed in, and the weights of one layer.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "finetune/finetune.h"
#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"
#include "weights/pair_rules.h"

namespace bitpress::finetune {

// Returns the layers that the options let learn, as FindLayers does. `resolved` must outlive them.
Layers TunableLayers(const graph::Model& float_model, const plan::ResolvedPlan& resolved,
                     const FinetuneOptions& options);

// Returns the quantized model of a plan, with quantizers that compute in floats.
graph::Model Simulated(graph::Model model, plan::ResolvedPlan resolved, ThreadPool& pool);

// Returns the float model, with quantizers of its activations if they are wanted, except those
// whose scale is chosen at run time.
graph::Model WithFloatWeights(graph::Model float_model, const plan::ResolvedPlan& resolved,
                              bool quantizes_activations, ThreadPool& pool);

// Cuts the parts of a network into passes of the samples.
std::vector<std::span<const LinearLayer>> PassesOf(std::span<const std::vector<LinearLayer>> parts,
                                                   const GatherOptions& options);

// Returns the layer's bias in the float model: as many zeros where there is none yet, and nothing
// where there can be none.
std::vector<float> FloatBiasOf(const graph::Model& float_model, const LinearLayer& layer);

// Returns whether a record of a journal can be that of the layer.
bool Fits(const graph::Model& float_model, const LinearLayer& layer, const LearnedLayer& learned);

// Learns one layer. `are_shared`: other layers need the moments too. Weights are read where they
// lie in the model.
LearnedLayer LearnFrom(const graph::Model& float_model, const LinearLayer& layer, LayerSums& sums,
                       bool are_shared, plan::OperatorSet operators,
                       const weights::PairRules& pair_rules, const FinetuneOptions& options,
                       ThreadPool& pool);

// Returns what progress says of a layer: "tune layers: Conv 'conv1' 21.3 -> 24.0 dB".
std::string StageOf(const TunedLayerReport& layer);

}  // namespace bitpress::finetune
