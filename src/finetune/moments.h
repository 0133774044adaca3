// The second moments of a layer: all that a quadratic loss of its weights needs of the samples, in
// memory that does not grow with their number. MomentAccumulator (moment_accumulator.h) gathers
// MomentSums from activations, and LayerTuner learns from Moments, the numbers that they give.
//
// Let x be the quantized model's input at a position and y the float model's output there. The
// error of weights W and bias b is the mean of |W x + b - y|^2, which is a function of these sums.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/exact_sum.h"
#include "base/spillable_array.h"
#include "base/thread_pool.h"
#include "finetune/layer.h"
#include "finetune/sum_matrix.h"

namespace bitpress::finetune {

// Sums over positions. Matrices are row-major, one after another for each group. Without observed
// outputs the sums of y are empty: y is what the float weights make of x (MeanSquaredChanges).
struct Moments {
  bool has_outputs = true;
  int64_t num_positions = 0;
  int64_t num_skipped = 0;             // positions that hold what no sum can (kMostMagnitude)
  SpillableArray<double> inputs;       // [groups, columns, columns]: x x', symmetric
  SpillableArray<double> cross;        // [groups, rows, columns]: y x'
  std::vector<double> input_sums;      // [groups, columns]
  std::vector<double> output_sums;     // [groups, rows]
  std::vector<double> output_squares;  // [groups, rows]
};

// Positions with NaN, infinity or magnitudes from here on do not count. So no product or sum of a
// run overflows.
inline constexpr float kMostMagnitude = 0x1p56F;

// The sizes of a layer's moments.
struct MomentShape {
  int64_t groups = 0;
  int64_t rows = 0;  // 0: outputs are not observed
  int64_t columns = 0;

  MatrixShape inputs() const { return {groups, columns, columns, true}; }
  MatrixShape cross() const { return {groups, rows, columns, false}; }
  bool operator==(const MomentShape&) const = default;
};

// The same sums as they are gathered. They do not depend on the order of the runs: sums of products
// are SumMatrix, others are ExactSum. What one run adds depends on the run, its index and the
// layer's shape alone. So sums of parts of the runs add up to exactly the sums of all.
struct MomentSums {
  MomentSums() = default;
  // Throws as SpillableArray does.
  MomentSums(const MomentShape& shape, ArrayPlace place);

  // Returns the moments. Nothing may be added afterwards: the sums are released on the way.
  Moments Finish();

  // The same sums have the same bytes.
  void Write(ByteWriter& out) const;
  // Adds sums that Write gave for this shape. Throws Error(kInvalidArgument) if the bytes are
  // damaged; some of them may be added then.
  void AddFrom(ByteReader& in, ThreadPool& pool);
  // Returns the least number of bytes that Write gives for a shape.
  static uint64_t LeastBytes(const MomentShape& shape);
  void Release() const;

  MomentShape shape;
  ArrayPlace place = ArrayPlace::kHeap;
  uint64_t num_positions = 0;
  uint64_t num_skipped = 0;
  uint64_t num_terms = 0;  // terms of each sum of products
  SumMatrix inputs, cross;
  std::vector<ExactSum> input_sums, output_sums, output_squares;
};

// Turns the moments of y into those of y - bias, for outputs that contain a fixed bias. Moments
// without outputs stay as they are. REQUIRES: `bias` has one element for each output.
void SubtractBias(const LinearLayer& layer, std::span<const float> bias, Moments& moments);

// Adds the sums of `from` to those of `to`. REQUIRES: both are of the same layer.
void AddMoments(const Moments& from, Moments& to);

// Returns the sums of both. REQUIRES: both are of the same layer.
Moments SumOf(const Moments& a, const Moments& b);

// Returns the bytes of Moments, and of MomentSums, of this shape.
uint64_t MomentBytes(const MomentShape& shape);
uint64_t SumBytes(const MomentShape& shape);

}  // namespace bitpress::finetune
