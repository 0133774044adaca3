// A 64-bit number for content: models and samples are told apart by it. It protects against
// mix-ups, not against intent. The same content gives the same number in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bitpress {

class ContentHash {
 public:
  // Adds bytes and how many they are, so that neighbours do not run into each other.
  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text);
  void AddNumber(uint64_t number);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace bitpress
