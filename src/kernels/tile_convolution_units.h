// The units of convolutions that tiles multiply (tile_rows.h): no product of a unit of the weight
// and one of the input is below 2^-126, nor 2^22 of them above 2^126. Weights have more room for
// small ones than those of products, because batch normalization leaves some channels almost no
// weight. Internal to the kernels of convolutions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "formats/block_units.h"

namespace bitpress::kernels {

inline constexpr float kLeastTileWeight = 0x1p-60F, kLargestTileWeight = 0x1p30F;

// Units of the input are bits of an exponent.
inline constexpr uint8_t kLeastTileColumn = formats::kUnitBias - 66;
inline constexpr uint8_t kLargestTileColumn = formats::kUnitBias + 74;

// Returns the least unit of the input with which all products with floats are multiples of 2^-126,
// as elements of 8-bit floats are of 2^-17. Nothing if tiles do not take the floats: they must be
// exact in bfloat16, and not much smaller or larger than weights are.
inline std::optional<uint8_t> LeastColumnOfFloats(std::span<const float> weights) {
  constexpr int kLeastBit = -100, kElementBits = 17, kLeastResult = -126;
  int least = 0;
  for (const float value : weights) {
    if (value == 0) continue;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool is_exact = (bits & 0xFFFFU) == 0;
    if (!is_exact || !(std::abs(value) <= kLargestTileWeight)) return std::nullopt;
    least = std::min(least, std::ilogb(value) - 23 + std::countr_zero(bits | 1U << 23U));
  }
  if (least < kLeastBit) return std::nullopt;
  return static_cast<uint8_t>(formats::kUnitBias + kLeastResult + kElementBits - least);
}

}  // namespace bitpress::kernels
