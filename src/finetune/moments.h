// The second moments of a layer: all that a quadratic loss of its weights needs of the samples, in
// memory that does not grow with their number. MomentAccumulator makes them from activations, and
// LayerTuner learns from them.
//
// Let x be the quantized model's input at a position and y the float model's output there. The
// error of weights W and bias b is the mean of |W x + b - y|^2, which is a function of these sums.
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

// A random choice of the positions. Each position has the same chance to be in it.
struct MomentRows {
  int64_t count = 0;        // positions that are kept
  int64_t capacity = 0;     // positions that there is room for
  SpillableArray<float> x;  // [groups, columns, capacity]
  SpillableArray<float> y;  // [groups, rows, capacity]
};

// Sums over positions. Matrices are row-major, one after another for each group. Without observed
// outputs the sums of y are empty: y is what the float weights make of x (MeanSquaredChanges).
struct Moments {
  bool has_outputs = true;
  int64_t num_positions = 0;
  int64_t num_skipped = 0;             // positions with NaN or infinity
  SpillableArray<double> inputs;       // [groups, columns, columns]: x x', symmetric
  SpillableArray<double> cross;        // [groups, rows, columns]: y x'
  std::vector<double> input_sums;      // [groups, columns]
  std::vector<double> output_sums;     // [groups, rows]
  std::vector<double> output_squares;  // [groups, rows]
  MomentRows kept;                     // empty unless MomentOptions::num_kept asks for them
};

struct MomentOptions {
  // Most positions of one run that count. They are spread evenly over the run. 0: all.
  int64_t num_positions = 0;
  // Seed of the choice of positions. The name of the layer's weight and the number of runs before
  // are part of the choice too.
  uint64_t seed = 0;
  // Most positions that are kept of all runs. Very wide layers keep fewer.
  int64_t num_kept = 0;
  // False: only x counts, and the moments have no outputs.
  bool observes_outputs = true;
  // The moments, and positions that wait to be added, lie in temporary files. They are in memory
  // only while they are added to or read.
  bool is_spilled = false;
};

// Turns the moments of y into those of y - bias, for outputs that contain a fixed bias. Kept
// positions stay as they are, and moments without outputs too. REQUIRES: `bias` has one element for
// each output.
void SubtractBias(const LinearLayer& layer, std::span<const float> bias, Moments& moments);

// Adds the sums of `from` to those of `to`. Kept positions stay as they are. REQUIRES: both are of
// the same layer.
void AddMoments(const Moments& from, Moments& to);

// Returns the sums of both, without kept positions. REQUIRES: both are of the same
// layer.
Moments SumOf(const Moments& a, const Moments& b);

// Returns the bytes that the moments of a layer and their accumulator take.
uint64_t MomentBytes(const LinearLayer& layer, const MomentOptions& options = {});

// The positions of a run that count, in their order: rows of a picture, steps of a sequence.
enum class PositionPart { kAll, kFirstHalf, kSecondHalf };

// Sums up the positions of one run after another. The sums depend on the order of the positions,
// and not on the number of threads. If all positions count, they do not depend either on how
// positions are cut into runs. Not thread-safe.
class MomentAccumulator {
 public:
  // `layer` must outlive the accumulator. Throws Error(kIo) if temporary files are wanted and have
  // no room.
  explicit MomentAccumulator(const LinearLayer& layer, const MomentOptions& options = {});
  ~MomentAccumulator();
  MomentAccumulator(MomentAccumulator&&) noexcept;
  MomentAccumulator& operator=(MomentAccumulator&&) noexcept;

  // Adds the positions of a part of one run. If outputs are not observed, `output` is null and
  // `output_dims` is empty. Throws as PatchReader. REQUIRES: Finish was not
  // called.
  void Add(std::span<const int64_t> input_dims, const float* input,
           std::span<const int64_t> output_dims, const float* output,
           const runtime::ParallelTasks& run_parallel, PositionPart part = PositionPart::kAll);
  // Returns the sums. Nothing may be added afterwards.
  Moments Finish(const runtime::ParallelTasks& run_parallel);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress::finetune
