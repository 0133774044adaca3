// Little-endian numbers in and out of bytes, and the checksum of calibration files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "calibrate/exact_sum.h"

namespace bitpress::calibrate {

// Returns the CRC-32C of the bytes (Castagnoli; RFC 3720, appendix B.4). "123456789" gives
// 0xE3069283.
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
  // Writes seven bits a byte, lowest first. The highest bit of a byte says that more follow.
  void Compact(uint64_t number);
  void Text(std::string_view text);  // writes its length, compact, and the bytes
  void Float(float x);
  void Sum(const ExactSum& sum);

  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// A reader of such bytes. Every function throws Error(kInvalidArgument) at the end of the bytes.
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
  uint64_t Compact();  // throws unless the number has its shortest form
  std::string Text();
  float Float();
  ExactSum Sum();
  // Reads the number of things that take at least `least_bytes` each. Throws if more are announced
  // than bytes can follow.
  size_t Count(size_t least_bytes);

  size_t num_left() const { return bytes_.size(); }

 private:
  std::string_view Take(size_t count);

  std::string_view bytes_;
};

// Throws the Error(kInvalidArgument) of a damaged file.
[[noreturn]] void FailDamaged(std::string_view what);

}  // namespace bitpress::calibrate
