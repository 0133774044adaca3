// A random choice of positions, the same for every order in which they are offered: each has a
// random number that follows from its run and place, and those with the smallest numbers are kept.
// So choices merge, too: what is kept of two parts has all that is kept of both.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/byte_stream.h"
#include "base/spillable_array.h"

namespace bitpress::finetune {

// The positions that are kept, with what the layer reads and gives there.
struct MomentRows {
  int64_t count = 0;        // positions that are kept
  int64_t capacity = 0;     // positions that there is room for
  SpillableArray<float> x;  // [groups, columns, capacity]
  SpillableArray<float> y;  // [groups, rows, capacity]
};

// A position's turn. The place in the run decides between equal numbers.
struct PositionRank {
  uint64_t number = 0;  // random
  uint64_t run = 0;
  uint64_t place = 0;
  auto operator<=>(const PositionRank&) const = default;
};

class KeptPositions {
 public:
  KeptPositions() = default;
  // `num_inputs` and `num_outputs` are the values of a position. Throws as SpillableArray does.
  KeptPositions(int64_t capacity, int64_t num_inputs, int64_t num_outputs, ArrayPlace place);

  int64_t capacity() const { return capacity_; }
  // Returns whether a position of this rank is to be kept.
  bool Wants(const PositionRank& rank) const;
  // Returns the place for its values: inputs, and outputs behind them. REQUIRES: Wants(rank).
  float* Take(const PositionRank& rank);

  // Returns the kept positions in the order of their ranks.
  MomentRows ToRows() const;
  // The same positions have the same bytes.
  void Write(ByteWriter& out) const;
  // Offers the positions that Write gave. Throws Error(kInvalidArgument) if the bytes are damaged.
  void AddFrom(ByteReader& in);
  void Release() const { values_.Release(); }

 private:
  struct Slot {
    PositionRank rank;
    size_t index = 0;  // among values_
    auto operator<=>(const Slot&) const = default;
  };
  std::vector<Slot> InOrder() const;

  int64_t capacity_ = 0;
  int64_t num_inputs_ = 0, num_outputs_ = 0;
  ArrayPlace place_ = ArrayPlace::kHeap;
  std::vector<Slot> slots_;       // a heap: the largest rank comes first
  SpillableArray<float> values_;  // [capacity, inputs and outputs]
};

}  // namespace bitpress::finetune
