// Gathers the second moments of a layer from the activations of one run after another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "finetune/layer.h"
#include "finetune/moments.h"
#include "finetune/patches.h"
#include "runtime/observers.h"

namespace bitpress::finetune {

struct MomentOptions {
  // Most positions of one run that count. They are spread evenly over the run. 0: all.
  int64_t num_positions = 0;
  // Seed of the choice of positions. The name of the layer's weight and the run's index are part of
  // the choice too.
  uint64_t seed = 0;
  // The moments, and positions that wait to be added, lie in temporary files. They are in memory
  // only while they are added to or read.
  bool is_spilled = false;
};

// Returns the sizes of what is gathered, and the bytes that it takes with the accumulator.
MomentShape ShapeOf(const LinearLayer& layer);
uint64_t AccumulatorBytes(const LinearLayer& layer);

// The positions of a run that count, in their order: rows of a picture, steps of a sequence.
enum class PositionPart { kAll, kFirstHalf, kSecondHalf };

// The part of the samples that is added.
struct RunPart {
  uint64_t run = 0;  // index of the run among all runs, those of other processes included
  PositionPart part = PositionPart::kAll;
};

// Sums up the positions of runs. The sums depend on the runs and their indices, and neither on
// their order nor on the number of threads: see MomentSums. Not thread-safe.
class MomentAccumulator {
 public:
  // `layer` must outlive the accumulator. Throws Error(kIo) if temporary files are wanted and have
  // no room.
  explicit MomentAccumulator(const LinearLayer& layer, const MomentOptions& options = {});
  ~MomentAccumulator();
  MomentAccumulator(MomentAccumulator&&) noexcept;
  MomentAccumulator& operator=(MomentAccumulator&&) noexcept;

  // Adds the positions of a part of one run. If the layer observes no outputs, `output` is null and
  // `output_dims` is empty. Throws as PatchReader. REQUIRES: Finish was not called.
  void Add(std::span<const int64_t> input_dims, const float* input,
           std::span<const int64_t> output_dims, const float* output,
           const runtime::ParallelTasks& run_parallel, const RunPart& of = {});
  // Returns the sums. Nothing may be added afterwards.
  MomentSums Finish(const runtime::ParallelTasks& run_parallel);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress::finetune
