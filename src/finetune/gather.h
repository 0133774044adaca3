// One pass of samples, which leaves the second moments of layers behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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
  size_t num_threads = 0;  // of ONNX Runtime; 0: one per core
  size_t batch_size = 8;   // samples read at once
  // Every so many runs one is held back: it counts for `held_back` and not for `learned`. 0: none.
  size_t hold_back_every = 0;
  // Of each run, as MomentOptions have them.
  int64_t num_positions = 0;
  uint64_t seed = 0;
  // Positions kept of layers with an activation function behind them, and half as many held back.
  int64_t num_kept = 0;
  // Bytes of the moments in memory, and of learning from them: GroupLayers makes groups that fit,
  // with a pass of the samples each, or moments that do not fit lie in temporary files.
  uint64_t memory_limit = 512'000'000;
  // A LayerTuner learns from the moments, one layer after another, and its memory counts too. The
  // moments of layers that have learned are released.
  bool is_for_tuner = true;
  bool is_spilled = false;
  std::filesystem::path operator_library = {};  // as in runtime::SessionOptions
  std::string stage = "observe layers";         // for progress, which counts samples
  ProgressSink progress = {};                   // may be empty
};

struct LayerMoments {
  Moments learned;
  Moments held_back;
};

// Cuts layers into the groups that one pass of the samples each is for: one group if what does not
// fit the limit is spilled, else groups that fit, if each layer does.
std::vector<std::span<const LinearLayer>> GroupLayers(std::span<const LinearLayer> layers,
                                                      const GatherOptions& options);

// The moments of each layer: inputs as its quantizer gives them for what the float model computes,
// outputs as the float model computes them. So layers learn to make up for what is lost at
// themselves, all of them from the same pass (docs/finetuning.md says why not for what is lost
// before them). `quantized_model` is the float model with the quantizers of a plan; it is cut down
// to what the layers need. Memory: the moments, which leave room for learning within the limit,
// those of one layer beyond it, and for one sample the activations that wait for their counterpart.
// Throws Error(kInvalidArgument) if there are no samples or a layer is missing in the model,
// Error(kIo) if temporary files have no room, and what reading and running throw.
std::vector<LayerMoments> GatherMoments(const graph::Model& float_model,
                                        const graph::Model& quantized_model,
                                        std::span<const LinearLayer> layers, data::Source& source,
                                        const GatherOptions& options);

}  // namespace bitpress::finetune
