#include "base/content_hash.h"

#include <cstring>

namespace bitpress {

void ContentHash::Add(std::span<const std::byte> bytes) {
  AddNumber(bytes.size());
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    AddNumber(word);
  }
  uint64_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  AddNumber(rest);
}

void ContentHash::Add(std::string_view text) {
  Add(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

// Multiplying carries every bit to all higher ones, and the shift brings them down again.
void ContentHash::AddNumber(uint64_t number) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 divided by the golden ratio
  value_ = (value_ ^ number) * kOdd;
  value_ ^= value_ >> 32;
}

}  // namespace bitpress
