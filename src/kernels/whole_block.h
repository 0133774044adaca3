// Takes blocks of quantized values apart into elements and units: the fast twin of
// formats::ref::TakeApart. Internal to the kernels of products.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "formats/block_units.h"

namespace bitpress::kernels {

// Returns a magnitude as it counts for the unit of its block, as bits that compare as integers.
inline int32_t CountedBits(float value, bool is_twos_complement) {
  constexpr int32_t kInfinity = 0x7F800000;
  const auto bits = std::bit_cast<int32_t>(value);
  const int32_t magnitude = bits & 0x7FFFFFFF;
  const bool counts_less = is_twos_complement && bits < 0 && magnitude > 0 && magnitude < kInfinity;
  return magnitude - static_cast<int32_t>(counts_less);
}

// The unit of a block and the factor that turns its values into elements, from the largest counted
// magnitude. The factor is 0 where all elements are zeros.
struct BlockScale {
  uint8_t unit = formats::kUnitBias;
  float inverse = 0;

  BlockScale(int32_t largest, int top) {
    const int32_t exponent = largest >> 23;
    if (exponent == 255) {
      unit = formats::kNanUnit;
    } else if (exponent > top) {
      unit = static_cast<uint8_t>(exponent - top);
      const int32_t field = 2 * formats::kUnitBias - int32_t{unit};
      inverse = field > 0 ? std::bit_cast<float>(field << 23) : 0x1p-127F;
    }
  }
};

// Kernels count sums of integers from the bits of this number on. Below 2^22 they are then the
// number plus the sum as float32, which saves a conversion: one multiply-add gives sum * unit.
inline constexpr float kWholeStart = 0x1.8p23F;
inline constexpr int32_t kWholeStartBits = 0x4B400000;
// The largest unit for which that does not overflow: larger ones, but that of NaN, are left to
// portable code.
inline constexpr uint8_t kLargestQuickUnit = 225;

// The unit of a block and the sum of its whole elements.
struct WholeBlock {
  uint8_t unit = formats::kUnitBias;
  int32_t sum = 0;
};

// Writes the elements of values[i * stride], i < length, and returns the unit. Number is a type
// that holds the elements exactly.
template <class Number>
uint8_t TakeApart(const formats::BlockUnits& rule, const float* values, size_t stride,
                  size_t length, Number* elements) {
  int32_t largest = 0;
  for (size_t i = 0; i < length; ++i) {
    const int32_t bits = CountedBits(values[i * stride], rule.is_twos_complement);
    largest = largest < bits ? bits : largest;
  }
  const BlockScale scale(largest, rule.top);
  for (size_t i = 0; i < length; ++i) {
    const bool is_zero = scale.inverse == 0;
    elements[i] = is_zero ? Number{0} : static_cast<Number>(values[i * stride] * scale.inverse);
  }
  return scale.unit;
}

}  // namespace bitpress::kernels
