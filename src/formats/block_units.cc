#include "formats/block_units.h"

#include <algorithm>
#include <cmath>

#include "formats/float_bits.h"

namespace bitpress::formats {
namespace {

bool IsBfloat16(const FormatSpec& spec) {
  return !spec.is_blocked() && spec.element_type == ElementType::kBFloat16;
}

}  // namespace

int64_t BlockOf(const FormatSpec& spec) {
  constexpr int64_t kBlockOfBfloat16 = 32;
  return spec.is_blocked() ? spec.block_size : kBlockOfBfloat16;
}

std::optional<BlockUnits> BlockUnitsOf(const FormatSpec& spec) {
  constexpr int kMostElementBits = 8;
  if (IsBfloat16(spec)) return BlockUnits{.is_one = true};
  if (!spec.has_exponent_scales() || spec.element_bits > kMostElementBits) return std::nullopt;
  BlockUnits units;
  if (spec.has_float_elements()) {
    const FloatLayout layout = LayoutOf(spec.element_type);
    // In units of the least value above zero.
    const double largest = std::ldexp(layout.max_value, layout.bias - 1 + layout.mantissa_bits);
    if (largest <= kLargestWholeElement) {
      units.largest = static_cast<int>(largest);
      units.top = std::ilogb(units.largest);
    } else {
      // Kernels decode these as half floats: E5M2 is the upper byte of one; the others have 1.75 as
      // their largest.
      units.top = layout.exponent_bits == 5 ? layout.max_exponent : 0;
    }
    return units;
  }
  const int magnitude = (1 << (spec.element_bits - 1)) - 1;
  units.is_twos_complement = !spec.is_block_float();
  // A sub-block that keeps the block's exponent holds multiples of the finest step.
  const int64_t most_shift = spec.sub_block_size > 0 ? (1 << spec.sub_block_shift_bits) - 1 : 0;
  if (most_shift > kMostElementBits || magnitude << most_shift > kLargestWholeElement) {
    return std::nullopt;
  }
  // Kernels keep 9 bits as 8 with a bit for each pair that doubles it.
  constexpr int kLargestOfByte = 127;
  if (magnitude << most_shift > kLargestOfByte && spec.sub_block_size % 2 != 0) return std::nullopt;
  units.largest = magnitude << most_shift;
  units.top = std::ilogb(units.largest);
  return units;
}

namespace ref {

UnitBlock TakeApart(const BlockUnits& units, std::span<const float> values) {
  UnitBlock block;
  if (units.is_one) {
    block.elements.assign(values.begin(), values.end());
    return block;
  }
  block.elements.assign(values.size(), 0.0F);
  uint32_t largest = 0;
  for (const float value : values) {
    const uint32_t magnitude = FloatBits(value) & ~kFloatSignBit;
    const bool counts_less = units.is_twos_complement && value < 0;
    largest = std::max(largest, counts_less ? magnitude - 1 : magnitude);
  }
  const int exponent = static_cast<int>(largest >> kFloatMantissaBits);
  if (std::ranges::any_of(values, [](float value) { return !IsFinite(value); })) {
    block.unit = kNanUnit;
  } else if (exponent > units.top) {
    block.unit = static_cast<uint8_t>(exponent - units.top);
    const double unit = std::ldexp(1.0, block.unit - kUnitBias);
    for (size_t i = 0; i < values.size(); ++i) {
      block.elements[i] = static_cast<float>(ToDouble(values[i]) / unit);
    }
  }
  return block;
}

}  // namespace ref
}  // namespace bitpress::formats
