// The pass `blocks` of fine-tuning: blocks of a network learn one after another by gradients
// (learn_block.h), each from what the network gives that is quantized up to it, towards what the
// float network computes. Blocks are those that gradients::FindBlocks finds. What lies between them
// runs in ONNX Runtime.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/thread_pool.h"
#include "data/source.h"
#include "finetune/validate_network.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::finetune {

struct FinetuneOptions;

// The result for one block. Errors are mean squares of its outputs' errors as shares of their
// variance, for the inputs that the quantized network gives.
struct TunedBlockReport {
  std::string output;  // the value that the block gives; the first one of several
  std::vector<std::string> weights;
  bool is_tuned = false;
  double training_before = 0, training_after = 0;
  double validation_before = 0, validation_after = 0;
  size_t best_step = 0;
  std::string note;
};
constexpr auto FieldsOf(const TunedBlockReport*) {
  using Report = TunedBlockReport;
  return std::tuple(
      Field{"output", &Report::output, "The value that the block gives; the first one of several."},
      Field{"weights", &Report::weights, "The weights that learned together."},
      Field{"is_tuned", &Report::is_tuned, "The model has what the block learned."},
      Field{
          "training_before", &Report::training_before,
          "Noise over signal of the block's outputs before it learned, on samples that it learned "
          "from. 0 in a block of the journal of a stopped run."},
      Field{"training_after", &Report::training_after, "The same with the weights it has."},
      Field{"validation_before", &Report::validation_before,
            "The same before it learned, on samples that it did not learn from."},
      Field{"validation_after", &Report::validation_after, "The same with the weights it has."},
      Field{"best_step", &Report::best_step, "The step of learning that its weights are from."},
      Field{"note", &Report::note, "Why it is not tuned, or what bounds it. May be ''."});
}

struct TunedBlocks {
  std::vector<TunedBlockReport> blocks;
  // Quantized weights that did not learn, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
  size_t num_resumed = 0;  // blocks that the journal had
  size_t num_samples = 0;
  size_t num_validation_runs = 0;  // 0: the samples that were learned from validate themselves
  std::optional<NetworkValidation> network;  // null: nothing learned, or nothing could validate
};

// Changes the weights and biases of `model`, which has what earlier passes learned, and scales in
// `resolved`. `float_model` is the model before them, `key` that of the journal. Everything stays
// as it was if the network's outputs do not come closer to those of the float model. Throws Error
// as Finetune.
TunedBlocks TuneBlocks(graph::Model& model, const graph::Model& float_model,
                       plan::ResolvedPlan& resolved, data::Source& source,
                       const FinetuneOptions& options, const std::string& key, ThreadPool& pool);

}  // namespace bitpress::finetune
