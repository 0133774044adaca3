// Second moments of a layer: what a quadratic loss of its weights needs of the samples, in memory
// that does not grow with their number.
//
// With x the quantized model's input at a position and y the float model's output there, the error
// of weights W and bias b is the mean of |W x + b - y|^2, a function of the sums kept here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/spillable_array.h"
#include "finetune/layer.h"
#include "finetune/patches.h"
#include "runtime/observers.h"

namespace bitpress::finetune {

// Some of the positions themselves. Each had the same chance to be among them.
struct MomentRows {
  int64_t count = 0;
  int64_t capacity = 0;
  SpillableArray<float> x;  // [groups, columns, capacity]
  SpillableArray<float> y;  // [groups, rows, capacity]
};

// Sums over positions. Matrices are row-major, one after another for each group.
struct Moments {
  int64_t num_positions = 0;
  int64_t num_skipped = 0;             // positions with NaN or infinity
  SpillableArray<double> inputs;       // [groups, columns, columns]: x x', symmetric
  SpillableArray<double> cross;        // [groups, rows, columns]: y x'
  std::vector<double> input_sums;      // [groups, columns]
  std::vector<double> output_sums;     // [groups, rows]
  std::vector<double> output_squares;  // [groups, rows]
  MomentRows kept;                     // where MomentOptions ask for them
};

struct MomentOptions {
  // Of the positions of one run, so many count at most, as many of each part of it; 0: all.
  int64_t num_positions = 0;
  // Decides which, together with the layer's weight and the number of runs before.
  uint64_t seed = 0;
  // Positions to keep of all runs, at most; fewer of layers that are very wide.
  int64_t num_kept = 0;
  // The moments, and what waits to be added, lie in temporary files. They are in memory while
  // something is added or read.
  bool is_spilled = false;
};

// Makes the moments those of y - bias, where outputs hold a bias that stays; `bias` has one value
// an output. Positions that are kept are left as they are.
void SubtractBias(const LinearLayer& layer, std::span<const float> bias, Moments& moments);

// Bytes of the moments of a layer, and of what adds to them.
uint64_t MomentBytes(const LinearLayer& layer, const MomentOptions& options = {});

// Adds the positions of one run after another. What it sums up depends on their order alone, not on
// how many threads there are nor, where all positions count, on how they are cut into runs.
class MomentAccumulator {
 public:
  // Throws Error(kIo) if temporary files are wanted and have no room.
  explicit MomentAccumulator(const LinearLayer& layer, const MomentOptions& options = {});
  ~MomentAccumulator();
  MomentAccumulator(MomentAccumulator&&) noexcept;
  MomentAccumulator& operator=(MomentAccumulator&&) noexcept;

  // Throws as PatchReader.
  void Add(std::span<const int64_t> input_dims, const float* input,
           std::span<const int64_t> output_dims, const float* output,
           const runtime::ParallelTasks& run_parallel);
  // The sums. Nothing may be added afterwards.
  Moments Finish(const runtime::ParallelTasks& run_parallel);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress::finetune
