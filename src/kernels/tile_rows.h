// How products in blocks use the tiles of AMX, whose products of bfloat16 are summed as float32.
// Internal to the kernels of products and convolutions.
//
// Whole elements of up to 8 bits, times their unit, are exact in bfloat16. All products of a block
// are multiples of the product of its units, and their sum is below 2^22 of these
// (formats::WhyNoProduct). So a tile, which starts from zeros for each block, has its exact sum
// times both units, in any order, unless that is so small that tiles take it as zero, or infinite.
// One addition to the sums of the blocks before rounds as the specification's multiply-add.
//
// Products of floats whose rows have a format are sums of products of bfloat16, too. A tile adds a
// part to its sums exactly as formats/block_products.h says, and so keeps them over all blocks.
//
// Vectors with fast dot products of bfloat16 stand in for tiles where others would multiply words
// or floats, half as many at a time (pair_sums-inl.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/round_up.h"
#include "formats/block_units.h"

namespace bitpress::kernels {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kTileRowBytes = 64;
// The most elements of a row of a tile.
inline constexpr size_t kTileDepth = kTileRowBytes / sizeof(uint16_t);

// This says where the elements of each four lie in pairs whose halves are two elements apart.
inline constexpr size_t kHalfOfPairs[] = {1, 3, 0, 2};

// Returns the elements that a padded block of panels has in tiles: those of one, or of several
// whole ones.
inline size_t DepthInTiles(size_t padded_block) {
  return padded_block <= kTileDepth ? padded_block : RoundUp(padded_block, kTileDepth);
}

// Returns a value that bfloat16 holds exactly, or NaN.
inline uint16_t Bfloat16Of(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U);
}
inline float FloatOfBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

// Returns whether all elements are exact in bfloat16.
inline bool FitsTiles(const formats::BlockUnits& rule) {
  constexpr int kLargest = 256;
  return rule.is_whole() && rule.largest <= kLargest && rule.least() >= -kLargest;
}

// The units of rows, as bits of an exponent, for which no product with a unit within 2^-30 and 2^30
// is below 2^-126, nor 2^22 of them above 2^126.
inline constexpr uint8_t kLeastTileUnit = formats::kUnitBias - 96;
inline constexpr uint8_t kLargestTileUnit = formats::kUnitBias + 74;
inline bool FitsTiles(uint8_t unit) {
  return unit == formats::kNanUnit || (unit >= kLeastTileUnit && unit <= kLargestTileUnit);
}

// Rows of floats in tiles are zeros, NaN or within these. So they are multiples of 2^-80. Their
// products with columns whose units are within 2^-30 and 2^30 are multiples of 2^-126, as elements
// are of 2^-16, and 2^40 of them are below 2^127. So nothing is taken as zero, or becomes infinite.
inline constexpr float kLeastTileFloat = 0x1p-73F, kLargestTileFloat = 0x1p40F;

}  // namespace bitpress::kernels
