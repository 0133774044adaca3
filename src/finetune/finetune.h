// Fine-tuning: weights and biases of a plan's layers are changed so that the quantized model
// computes what the float model does, layer after layer from the inputs on, from second moments of
// samples. See docs/finetuning.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "data/source.h"
#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer_tuner.h"
#include "finetune/tune_blocks.h"
#include "finetune/validate_network.h"
#include "graph/model.h"
#include "plan/finetune_passes.h"
#include "plan/resolved_plan.h"
#include "rewrite/smooth.h"

namespace bitpress::finetune {

struct FinetuneOptions {
  std::vector<plan::FinetunePass> passes;
  std::vector<std::string> op_types = {};  // only layers of these; empty: all
  bool adds_biases = true;  // pass bias_correction: to layers without one, where they are better
  LayerTunerOptions tuner;
  size_t num_steps = 100;  // of learning for each block, pass blocks
  // The journal file that keeps the learned results; empty: none. The journal of a run that was
  // stopped is read first. It stays until whoever has written the result removes it.
  std::filesystem::path journal = {};
  GatherOptions gather = {.hold_back_every = 8};
};

struct FinetuneReport {
  rewrite::SmoothReport scaled;          // by pass awq
  std::vector<TunedLayerReport> layers;  // in graph order
  // Quantized weights that cannot be tuned, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
  size_t num_added_biases = 0;  // biases that nodes did not have before
  size_t num_resumed = 0;       // layers that the journal of a stopped run had
  size_t num_samples = 0;       // that were learned from; 0: none, or not known before
  // The gain of the network's outputs from all layers together. Null if no layer was tuned, or if
  // no samples are for validation.
  std::optional<NetworkValidation> network;
  // By pass blocks, in graph order; empty without it. `network` is of what the passes before it
  // learned.
  TunedBlocks blocks;

  // Returns the number of layers whose errors are of these samples.
  size_t NumValidatedOn(ValidatedOn samples) const;
};
constexpr auto FieldsOf(const FinetuneReport*) {
  using Report = FinetuneReport;
  return std::tuple(
      Field{"num_samples", &Report::num_samples,
            "Samples that were learned from. 0: none, or not known before."},
      Field{"num_resumed", &Report::num_resumed, "Layers that the journal of a stopped run had."},
      Field{"layers", &Report::layers, "In graph order."},
      Field{"left_out", &Report::left_out,
            "Quantized weights that cannot be tuned, with the reason."},
      ComputedField{"network",
                    [](const Report& report) {
                      const bool is_validated =
                          report.network &&
                          (report.network->num_runs > 0 || report.network->num_lost_runs > 0);
                      return is_validated ? report.network : std::nullopt;
                    },
                    "The network's outputs with all layers together. None if no layer was tuned, "
                    "or if no samples could validate."},
      ComputedField{"blocks", [](const Report& report) { return report.blocks.blocks; },
                    "What pass blocks learned, in graph order. Empty without it."},
      ComputedField{"network_of_blocks", [](const Report& report) { return report.blocks.network; },
                    "The network's outputs with all blocks together, against those before. None if "
                    "no block was tuned, or if no samples could validate."});
}

struct Finetuned {
  plan::ResolvedPlan resolved;  // with the scales that were learned, and rows of new biases
  FinetuneReport report;
};

// Changes the weights and biases of `model`, the float model that the plan is of, and gives the
// plan back with what was learned, so that ApplyPlan afterwards writes it. Weights are kept only
// where samples that they were not learned from show a smaller error than before (learn_layer.h),
// and only if the network's outputs on such samples come closer too (validate_network.h). Else
// everything stays as rounded. TunedLayerReport::validated_on says on which samples. Throws Error
// as GatherMoments and ApplyPlan.
Finetuned Finetune(graph::Model& model, plan::ResolvedPlan resolved, data::Source& source,
                   const FinetuneOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
