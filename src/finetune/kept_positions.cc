#include "finetune/kept_positions.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace bitpress::finetune {

KeptPositions::KeptPositions(int64_t capacity, int64_t num_inputs, int64_t num_outputs,
                             ArrayPlace place)
    : capacity_(capacity),
      num_inputs_(num_inputs),
      num_outputs_(num_outputs),
      place_(place),
      values_(static_cast<size_t>(capacity * (num_inputs + num_outputs)), place) {}

bool KeptPositions::Wants(const PositionRank& rank) const {
  if (std::ssize(slots_) < capacity_) return true;
  return capacity_ > 0 && rank < slots_.front().rank;
}

float* KeptPositions::Take(const PositionRank& rank) {
  BITPRESS_DCHECK(Wants(rank));
  size_t index = slots_.size();
  if (std::ssize(slots_) == capacity_) {
    std::ranges::pop_heap(slots_);
    index = slots_.back().index;
    slots_.pop_back();
  }
  slots_.push_back({rank, index});
  std::ranges::push_heap(slots_);
  return values_.data() + static_cast<int64_t>(index) * (num_inputs_ + num_outputs_);
}

std::vector<KeptPositions::Slot> KeptPositions::InOrder() const {
  std::vector<Slot> slots = slots_;
  std::ranges::sort(slots);
  return slots;
}

MomentRows KeptPositions::ToRows() const {
  MomentRows rows;
  rows.capacity = capacity_;
  rows.x = {static_cast<size_t>(num_inputs_ * capacity_), place_};
  rows.y = {static_cast<size_t>(num_outputs_ * capacity_), place_};
  for (const Slot& slot : InOrder()) {
    const float* from =
        values_.data() + static_cast<int64_t>(slot.index) * (num_inputs_ + num_outputs_);
    for (int64_t i = 0; i < num_inputs_; ++i) rows.x.data()[i * capacity_ + rows.count] = *from++;
    for (int64_t i = 0; i < num_outputs_; ++i) rows.y.data()[i * capacity_ + rows.count] = *from++;
    ++rows.count;
  }
  return rows;
}

void KeptPositions::Write(ByteWriter& out) const {
  out.Compact(slots_.size());
  const int64_t num_values = num_inputs_ + num_outputs_;
  for (const Slot& slot : InOrder()) {
    out.Number(slot.rank.number);
    out.Number(slot.rank.run);
    out.Number(slot.rank.place);
    const float* const from = values_.data() + static_cast<int64_t>(slot.index) * num_values;
    for (int64_t i = 0; i < num_values; ++i) out.Float(from[i]);
  }
}

void KeptPositions::AddFrom(ByteReader& in) {
  const auto num_values = static_cast<size_t>(num_inputs_ + num_outputs_);
  const size_t count = in.Count(3 * sizeof(uint64_t) + num_values * sizeof(float));
  if (count > static_cast<size_t>(capacity_)) in.FailDamaged("more positions are kept than wanted");
  PositionRank last;
  for (size_t i = 0; i < count; ++i) {
    PositionRank rank;
    rank.number = in.Number<uint64_t>();
    rank.run = in.Number<uint64_t>();
    rank.place = in.Number<uint64_t>();
    if (i > 0 && !(last < rank)) in.FailDamaged("kept positions are not in order");
    last = rank;
    float* const to = Wants(rank) ? Take(rank) : nullptr;
    for (size_t k = 0; k < num_values; ++k) {
      const float value = in.Float();
      if (!std::isfinite(value)) in.FailDamaged("a kept position is not finite");
      if (to != nullptr) to[k] = value;
    }
  }
}

}  // namespace bitpress::finetune
