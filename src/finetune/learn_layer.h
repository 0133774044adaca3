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
  bool are_moments_shared = false;  // later layers read them too, so that they must stay
};

// Runs the passes and returns the weights that have the smallest error on positions that they did
// not learn from. Every pass that rounds offers weights. The result is not tuned if no offer is
// clearly better than weights rounded to nearest, or if nothing can validate.
//
// With Split::kHeldBack `moments.held_back` is for validation. With kHalves and kPositions each
// half validates what the passes learn from the other one; then they learn from both, which are
// added up in `moments.learned` (unless they must stay), and LearnedLayer::of_halves keeps what
// they learned from each. With kNone `moments.learned` validates itself.
//
// The ridge is the one that the noise in the inputs' moments calls for (ridge.h), and at least that
// of `options`. Passes with an aim choose a ridge and a share for it (LayerTunerOptions) with the
// smallest error on the validation positions. With kNone all are those of `options`.
LearnedLayer LearnLayer(const LayerTask& task, LayerMoments& moments,
                        const LayerTunerOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
