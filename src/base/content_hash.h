// A 64-bit number for content, by which files of results recognize their model and their samples.
// It protects against mix-ups, not against intent. The same content gives the same number in every
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bitpress {

class ContentHash {
 public:
  // Adds the bytes and their number, so that two additions differ from one of all bytes.
  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text);
  void AddNumber(uint64_t number);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace bitpress
