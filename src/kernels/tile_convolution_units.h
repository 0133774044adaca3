// The units of convolutions that tiles multiply (tile_rows.h): no product of a unit of the weight
// and one of the input is below 2^-126, nor 2^22 of them above 2^126. Weights have more room for
// small ones than those of products, because batch normalization leaves some channels almost no
// weight. Internal to the kernels of convolutions.
#pragma once

#include <cstdint>

#include "formats/block_units.h"

namespace bitpress::kernels {

inline constexpr float kLeastTileWeight = 0x1p-60F, kLargestTileWeight = 0x1p30F;

// Units of the input are bits of an exponent.
inline constexpr uint8_t kLeastTileColumn = formats::kUnitBias - 66;
inline constexpr uint8_t kLargestTileColumn = formats::kUnitBias + 74;
inline bool FitsTileColumns(uint8_t unit) {
  return unit == formats::kNanUnit || (unit >= kLeastTileColumn && unit <= kLargestTileColumn);
}

}  // namespace bitpress::kernels
