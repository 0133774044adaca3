// Sums without rounding, for figures that must not depend on the order of what is added to them.
// They are fixed-point numbers wide enough for every float.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace bitpress {

__extension__ typedef unsigned __int128 UInt128;

// A sum of at most 2^63 terms x or x * x, where x are finite floats: a two's complement integer in
// units of 2^-298, the square of the smallest float. 2^256 is above the largest square.
class ExactSum {
 public:
  // 298 + 256 + 63 bits and a sign, in words of 64, lowest first.
  static constexpr size_t kNumWords = 10;
  static constexpr int kLowestExponent = -298;

  // Add x, and x * x. REQUIRES: x is finite.
  void Add(float x);
  void AddSquare(float x);
  // Adds x, without what it has below 2^-298. So the sum of doubles does not depend on their order
  // either. REQUIRES: |x| < kTooLargeDouble.
  void AddDouble(double x);
  static constexpr double kTooLargeDouble = 0x1p280;  // 2^61 of them fit
  // Adds magnitude * 2^exponent, or subtracts it. REQUIRES: exponent >= -298, and the sum fits.
  void AddScaled(UInt128 magnitude, int exponent, bool is_negative);
  void Add(const ExactSum& other);

  // Returns the nearest double, ties to even; infinite beyond its range.
  double Round() const;
  // Returns Round() / divisor, which is rounded twice. REQUIRES: divisor > 0.
  double Mean(uint64_t divisor) const {
    BITPRESS_DCHECK(divisor > 0);
    return Round() / static_cast<double>(divisor);
  }

  std::span<const uint64_t, kNumWords> words() const { return words_; }
  static ExactSum FromWords(std::span<const uint64_t, kNumWords> words);
  bool operator==(const ExactSum&) const = default;

 private:
  std::array<uint64_t, kNumWords> words_ = {};
};

}  // namespace bitpress
