// Blocks of floats as whole numbers times a power of two: what the native form of ONNX Runtime
// (native_weight.h) and the standard one (standard_form.h) make of block formats. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "formats/format_spec.h"

namespace bitpress::weights {

// Returns the least bits of two's complement numbers that hold the elements of a block in units of
// its finest step. REQUIRES: the scales of its blocks are powers of two.
int WholeNumberBits(const formats::FormatSpec& spec);

// A finite float as an odd number (or 0) times a power of two.
struct OddTimesPower {
  explicit OddTimesPower(float value) {
    constexpr uint32_t kMantissa = 0x7FFFFF;
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto biased = static_cast<int>(bits >> 23U & 0xFFU);
    uint32_t magnitude = bits & kMantissa;
    if (biased > 0) magnitude |= kMantissa + 1;
    if (magnitude == 0) return;
    const int zeros = std::countr_zero(magnitude);
    exponent = std::max(biased, 1) - 150 + zeros;
    odd = static_cast<int64_t>(magnitude >> static_cast<unsigned>(zeros));
    if (value < 0) odd = -odd;
  }

  int64_t odd = 0;
  int exponent = std::numeric_limits<int>::max();
};

// Gives `put(i, number)` the `count` values of a block, `value(i)`, as whole numbers of the largest
// power of two of which all are multiples, and returns that power. A zero has the number 0,
// whatever its sign; the power of a block of zeros is 1. REQUIRES: the values are finite and the
// numbers fit 63 bits.
template <typename Value, typename Put>
float ToWholeNumbers(int64_t count, const Value& value, const Put& put) {
  int exponent = std::numeric_limits<int>::max();
  for (int64_t i = 0; i < count; ++i) {
    exponent = std::min(exponent, OddTimesPower(value(i)).exponent);
  }
  const bool is_zero = exponent == std::numeric_limits<int>::max();
  for (int64_t i = 0; i < count; ++i) {
    const OddTimesPower number(value(i));
    put(i, number.odd == 0 ? 0 : number.odd * (int64_t{1} << (number.exponent - exponent)));
  }
  return is_zero ? 1.0F : std::ldexp(1.0F, exponent);
}

}  // namespace bitpress::weights
