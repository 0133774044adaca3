// Learns one layer from its moments: runs the passes of a recipe one after another and keeps the
// best weights that they found. Fine-tuning calls it for each layer in turn.
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

// The work on one layer: its constants in the float model, and the recipe.
struct LayerTask {
  const LinearLayer& layer;
  std::span<const float> weights;
  std::span<const float> bias;  // empty: none
  std::vector<int64_t> dims;    // shape of the weight
  plan::OperatorSet operators = plan::OperatorSet::kBitpress;
  std::vector<weights::PairRule> pairs{};  // rules for pair sums; empty: any sum is allowed
  std::span<const plan::FinetunePass> passes;
};

// Runs the passes on `moments.learned` and returns the weights with the smallest error on
// `moments.held_back`. Every pass that rounds offers weights. The result is not tuned if weights
// rounded to nearest have a smaller error than all of them.
//
// Before passes that learn real weights, a few ridges are tried, and the one with the smallest
// error on `moments.held_back` is used. If no positions are held back, `moments.learned` judges,
// the report says so, and the ridge is that of `options`.
LearnedLayer LearnLayer(const LayerTask& task, const LayerMoments& moments,
                        const LayerTunerOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
