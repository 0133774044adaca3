// Fine-tuning: weights and biases of a plan's layers are changed so that the quantized model
// computes what the float model does, layer after layer from the inputs on, from second moments of
// samples. See docs/finetuning.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "data/source.h"
#include "emit/apply_plan.h"
#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer_tuner.h"
#include "graph/model.h"
#include "plan/finetune_passes.h"
#include "plan/quant_plan.h"
#include "rewrite/smooth.h"

namespace bitpress::finetune {

struct FinetuneOptions {
  std::vector<plan::FinetunePass> passes;
  // Groups of layers, from the inputs on, each of which learns where everything before it is
  // quantized already, with a pass of the samples. One group learns from the float model.
  size_t num_groups = 1;
  std::vector<std::string> op_types = {};  // only layers of these; empty: all
  bool adds_biases = true;  // pass bias_correction: to layers without one, where they are better
  LayerTunerOptions tuner;
  // Where what was learned is kept; empty: nowhere. The journal of a run that was stopped is read
  // first. It stays: whoever has written the result removes it.
  std::filesystem::path journal = {};
  GatherOptions gather = {.hold_back_every = 8};
};

// A bias that a node of the model did not have before, and where it is read.
struct AddedBias {
  std::string value;
  plan::TensorUse use;
};

struct FinetuneReport {
  rewrite::SmoothReport scaled;     // by pass awq
  std::vector<LayerReport> layers;  // in graph order
  // Quantized weights that cannot be tuned, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
  std::vector<AddedBias> added_biases;  // of which the plan knows nothing
  size_t num_resumed = 0;               // layers that the journal of a stopped run had
  size_t num_samples = 0;               // that were learned from; 0: none, or not known before

  // Returns the number of layers whose errors are of these samples.
  size_t NumJudgedBy(Judge judge) const;
};

// Changes the weights and biases of `model`, the float model that `plan` is of, and adds the
// learned scales of integers to `apply`, so that ApplyPlan afterwards writes what was learned.
// Weights are kept only where their error on held-back samples is smaller than before. With fewer
// runs than one of `gather.hold_back_every` nothing is held back; LayerReport::judge says so.
// Throws Error as GatherMoments and ApplyPlan.
FinetuneReport Finetune(graph::Model& model, const plan::QuantPlan& plan, emit::ApplyOptions& apply,
                        data::Source& source, const FinetuneOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
