// The values of a block as elements times a power of two, the unit of the block. In most block
// formats the elements are whole numbers of few bits, so that products of two blocks are sums of
// products of integers. The unit follows from the values alone, whatever scale they were quantized
// with. BF16 has no blocks: its values are elements of the unit 1, in blocks of 32, which is as
// long as parts of sums are (formats/block_products.h). Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::formats {

// The rule that gives a block its unit, and the bounds of its elements.
struct BlockUnits {
  // The distance from the exponent of the block's largest magnitude to that of the unit.
  int top = 0;
  // A negative power of two counts as the value one step above it: -128 is a number of 8 bits, and
  // 128 is none.
  bool is_twos_complement = false;
  // The largest magnitude of elements that are whole numbers of at most 9 bits. Negative elements
  // of two's complement have one more. 0: the elements are floats of 8 bits, or bfloat16.
  int largest = 0;
  // Every unit is 1.
  bool is_one = false;

  bool is_whole() const { return largest > 0; }
  int least() const { return is_twos_complement ? -largest - 1 : -largest; }
};

inline constexpr int kLargestWholeElement = 255;

// Returns the rule of a format. Nothing if it has scales that are no powers of two, or elements of
// more bits, or no blocks unless it is BF16.
std::optional<BlockUnits> BlockUnitsOf(const FormatSpec& spec);

// Returns the elements of a block: 32 in BF16.
int64_t BlockOf(const FormatSpec& spec);

// The biased exponents of units, as bytes: 2^(unit - kUnitBias). The top one means that the block
// is NaN.
inline constexpr int kUnitBias = 127;
inline constexpr uint8_t kNanUnit = 255;

namespace ref {

struct UnitBlock {
  uint8_t unit = kUnitBias;
  std::vector<float> elements;
};

// Takes a block of quantized values apart. Where units are 1, elements are the values. Otherwise a
// block with NaN or infinity has the unit kNanUnit and zeros as elements. A block of zeros, or one
// whose unit would be below 2^-126, has the unit 2^0 and zeros.
UnitBlock TakeApart(const BlockUnits& units, std::span<const float> values);

}  // namespace ref
}  // namespace bitpress::formats
