// Learning of one layer from its moments: the passes of a recipe, one after another, and what is
// kept of what they leave behind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer.h"
#include "finetune/layer_tuner.h"
#include "plan/finetune_passes.h"
#include "plan/quant_config.h"

namespace bitpress::finetune {

// The float model's constants of a layer, and the recipe.
struct LayerTask {
  const LinearLayer& layer;
  std::span<const float> weights;
  std::span<const float> bias;  // empty: none
  std::vector<int64_t> dims;    // of the weight
  plan::OperatorSet operators = plan::OperatorSet::kBitpress;
  std::vector<weights::PairRule> pairs{};  // of an integer weight whose pair sums must fit
  std::span<const plan::FinetunePass> passes;
};

// Runs the passes on `moments.learned`. Every pass that rounds leaves weights behind; those with
// the smallest error on `moments.held_back` are taken, unless the directly quantized weights have a
// smaller one. Passes that learn real weights get the ridge, of a few, whose weights have the
// smallest error there. Without held-back positions the learned ones judge, which the report says,
// and the ridge is that of `options`.
LearnedLayer LearnLayer(const LayerTask& task, const LayerMoments& moments,
                        const LayerTunerOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
