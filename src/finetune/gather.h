// Runs samples through the model and collects the second moments of its layers (moments.h), from
// which fine-tuning learns their weights. Layers whose moments do not fit the memory together are
// cut into groups first, one pass of the samples each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "finetune/gather_options.h"
#include "finetune/layer.h"
#include "finetune/moment_accumulator.h"
#include "finetune/moments.h"
#include "finetune/observed_network.h"

namespace bitpress::finetune {

// The way in which a layer's samples are split into those for training and those for validation.
enum class Split : uint8_t {
  kNone,       // all are learned from, because GatherOptions::hold_back_every is 0
  kHeldBack,   // one run in hold_back_every is for validation
  kHalves,     // each half of the runs validates what was learned from the other half
  kPositions,  // there is one run: each half of its positions validates the other
};

// Returns the split of so many runs (0: not known). One run in `hold_back_every` is for validation
// if these are four or more. Where runs are fewer, halves validate each other.
Split SplitOf(size_t num_runs, size_t hold_back_every);
// Returns whether a run, which are counted from 1 on, counts for LayerMoments::held_back.
// REQUIRES: not Split::kPositions, where a part of the run does.
bool IsHeldBack(size_t run, Split split, size_t hold_back_every);

// The moments of one layer.
struct LayerMoments {
  Moments learned;    // of the runs for training
  Moments held_back;  // of the runs for validation
  Split split = Split::kNone;
};

// The sums that the moments of one layer follow from, or of several layers that share them.
struct LayerSums {
  MomentSums learned, held_back;
  Split split = Split::kNone;
  RunRange runs;  // that were added
  std::optional<LayerMoments> finished = std::nullopt;

  // Returns the moments. The first call releases the sums.
  LayerMoments& Finish();
};

// Cuts layers into groups, one for each pass of the samples. Returns one group if moments may be
// spilled. Else every group fits the memory limit, except a layer that alone exceeds it.
std::vector<std::span<const LinearLayer>> GroupLayers(std::span<const LinearLayer> layers,
                                                      const GatherOptions& options);

// Returns the index of the first layer whose moments are those of layers[i] too: i itself, unless
// both need the moments of one input and nothing else.
size_t FirstWithMomentsOf(std::span<const LinearLayer> layers, size_t i);

// Returns the sums of each of the layers, which are of one part of the network. Layers that read
// one float activation (LinearLayer::float_input) share them, and they have no outputs. A layer's
// outputs are those of the float model. Its inputs are those of the float model after the layer's
// quantizer. So a layer learns to make up for the error of its own quantization, and all layers
// learn from one pass. docs/finetuning.md says why a layer does not learn from errors that were
// made before it.
//
// If the source has a part of the samples (data::Source::place), the sums are those of this part:
// with those of all other parts they add up to exactly the sums of all samples.
//
// Only that part of the network runs that the layers need. Memory: the moments within the limit, or
// those of one layer beyond it, and for one sample the activations that wait for their counterpart.
//
// Throws Error(kIo) if temporary files have no room, and the errors of ObservedNetwork::Run.
std::vector<std::shared_ptr<LayerSums>> GatherMoments(ObservedNetwork& network,
                                                      std::span<const LinearLayer> layers,
                                                      const GatherOptions& options);

}  // namespace bitpress::finetune
