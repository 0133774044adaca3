#include "custom_ops/shared_weights.h"

#include <cstring>
#include <random>

namespace bitpress::custom_ops {
namespace {

const std::array<uint64_t, 2>& Seed() {
  static const std::array<uint64_t, 2> seed = [] {
    std::random_device random;
    std::array<uint64_t, 2> numbers{};
    for (uint64_t& number : numbers) number = uint64_t{random()} << 32U | random();
    return numbers;
  }();
  return seed;
}

}  // namespace

WeightKey::WeightKey() : value_(Seed()) {}

// Both numbers take the word in with a full product of 128 bits, whose halves they keep together: a
// product with the secret seed hides which words would collide.
void WeightKey::AddWord(uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::array<uint64_t, 2> kOdd{0x9E3779B97F4A7C15U, 0xD6E8FEB86659FD93U};
  for (size_t i = 0; i < value_.size(); ++i) {
    const Wide product = static_cast<Wide>(value_[i] ^ word) * (Seed()[1 - i] | 1U);
    const auto low = static_cast<uint64_t>(product), high = static_cast<uint64_t>(product >> 64U);
    value_[i] = (low ^ high ^ value_[i]) + kOdd[i];
  }
}

void WeightKey::Add(int64_t number) { AddWord(static_cast<uint64_t>(number)); }

void WeightKey::Add(std::span<const uint8_t> bytes) {
  AddWord(bytes.size());
  size_t i = 0;
  uint64_t word = 0;
  for (; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    AddWord(word);
  }
  word = 0;
  if (i < bytes.size()) std::memcpy(&word, bytes.data() + i, bytes.size() - i);
  AddWord(word);
}

void WeightKey::Add(std::string_view word) {
  Add(std::span(reinterpret_cast<const uint8_t*>(word.data()), word.size()));
}

void WeightKey::Add(const formats::PackedView& view) {
  for (const auto part : {view.codes, view.low_codes, view.scales, view.shifts}) Add(part);
}

}  // namespace bitpress::custom_ops
