// Runs samples through the model and collects the second moments of its layers (moments.h), from
// which fine-tuning learns their weights. Layers whose moments do not fit the memory together are
// cut into groups first, one pass of the samples each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "finetune/layer.h"
#include "finetune/moments.h"
#include "graph/model.h"

namespace bitpress::finetune {

struct GatherOptions {
  size_t num_threads = 0;  // threads of ONNX Runtime; 0: one per core
  size_t batch_size = 8;   // samples read at once
  // One run in this number is held back where the samples are plenty: it counts for `held_back` and
  // not for `learned`. 0: none is ever held back. See Split for where the samples are few.
  size_t hold_back_every = 0;
  // Positions of each run that count, and the seed that chooses them: see MomentOptions.
  int64_t num_positions = 0;
  uint64_t seed = 0;
  // Positions kept of layers with an activation function behind them. Half as many are kept of the
  // runs that are held back.
  int64_t num_kept = 0;
  // Bytes that the moments and learning from them may take. Moments that do not fit get a pass of
  // the samples of their own (GroupLayers) or, if is_spilled, lie in temporary files.
  uint64_t memory_limit = 512'000'000;
  // A LayerTuner learns from the moments, one layer after another, and releases them layer by
  // layer. So its memory counts too.
  bool is_for_tuner = true;
  bool is_spilled = false;
  std::filesystem::path operator_library = {};  // as in runtime::SessionOptions
  std::string stage = "observe layers";         // name for progress, which counts samples
  ProgressSink progress = {};                   // may be empty
};

// The way in which a layer's samples are divided, so that some judge what others teach.
enum class Split : uint8_t {
  kNone,       // all are learned from, because GatherOptions::hold_back_every is 0
  kHeldBack,   // one run in hold_back_every judges
  kHalves,     // each half of the runs judges what was learned from the other half
  kPositions,  // there is one run: each half of its positions judges the other
};

// Returns the split of so many runs (0: not known). Only where one run in `hold_back_every` makes
// four judges or more, they judge alone; where runs are fewer, halves judge each other.
Split SplitOf(size_t num_runs, size_t hold_back_every);
// Returns whether a run, which are counted from 1 on, counts for LayerMoments::held_back.
// REQUIRES: not Split::kPositions, where a part of the run does.
bool IsHeldBack(size_t run, Split split, size_t hold_back_every);

// The moments of one layer.
struct LayerMoments {
  Moments learned;    // of the runs to learn from
  Moments held_back;  // of the runs that judge
  Split split = Split::kNone;
};

// Cuts layers into groups, one for each pass of the samples. Returns one group if moments may be
// spilled. Else every group fits the memory limit, except a layer that alone exceeds it.
std::vector<std::span<const LinearLayer>> GroupLayers(std::span<const LinearLayer> layers,
                                                      const GatherOptions& options);

// Returns the moments of each layer. Layers that read one float activation (LinearLayer::
// float_input) share them, and they have no outputs. A layer's outputs are those of the float model. Its inputs are
// those of the float model after the layer's quantizer. So a layer learns to make up for the error
// of its own quantization, and all layers learn from one pass. docs/finetuning.md says why a layer
// does not learn from errors that were made before it.
//
// `quantized_model` is the float model with the quantizers of a plan. Of it, only the part runs
// that the layers need. Memory: the moments within the limit, or those of one layer beyond it, and
// for one sample the activations that wait for their counterpart.
//
// Throws Error(kInvalidArgument) if there are no samples or a layer is missing in the model,
// Error(kIo) if temporary files have no room, and the errors of reading and running.
std::vector<std::shared_ptr<LayerMoments>> GatherMoments(const graph::Model& float_model,
                                                         const graph::Model& quantized_model,
                                                         std::span<const LinearLayer> layers,
                                                         data::Source& source,
                                                         const GatherOptions& options);

}  // namespace bitpress::finetune
