// Little-endian numbers in and out of bytes, and the checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "calibrate/exact_sum.h"

namespace bitpress::calibrate {

// CRC-32C (Castagnoli; RFC 3720, appendix B.4): of "123456789" it is 0xE3069283.
uint32_t Crc32c(std::string_view bytes);

class ByteWriter {
 public:
  template <typename T>
  void Number(T number) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(number) >> (8 * i) & 0xFFu));
    }
  }
  void Wide(UInt128 number);
  // Seven bits a byte, lowest first; the highest bit says that more follow.
  void Compact(uint64_t number);
  void Text(std::string_view text);  // its length, compact, and the bytes
  void Float(float x);
  void Sum(const ExactSum& sum);

  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Every function throws Error(kInvalidArgument) at the end of the bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    uint64_t number = 0;
    const std::string_view part = Take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i) {
      number |= uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
    }
    return static_cast<T>(number);
  }
  UInt128 Wide();
  uint64_t Compact();  // the shortest form only
  std::string Text();
  float Float();
  ExactSum Sum();
  // A number of things that take at least `least_bytes` each: no more than may follow.
  size_t Count(size_t least_bytes);

  size_t num_left() const { return bytes_.size(); }

 private:
  std::string_view Take(size_t count);

  std::string_view bytes_;
};

[[noreturn]] void FailDamaged(std::string_view what);

}  // namespace bitpress::calibrate
