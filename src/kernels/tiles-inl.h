// The tiles of AMX: eight registers of up to 16 rows of 64 bytes, and products of two of them. Each
// thread has a configuration of its own, which says how large its tiles are. For the vector code
// that products_with_tiles.inc stands before.
#if defined(BITPRESS_KERNELS_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_TILES_INL_H_
#undef BITPRESS_KERNELS_TILES_INL_H_
#else
#define BITPRESS_KERNELS_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tile_rows.h"

// Targets without tiles only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_TILES
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The processor reads and writes this as the configuration of a thread.
struct alignas(64) TileShapes {
  uint8_t palette = 0;  // 0: there are no tiles
  uint8_t first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The tiles of products: 0 to 3 hold sums, 4 and 5 rows of a left matrix, 6 and 7 columns.
constexpr int kSumTile = 0, kRowTile = 4, kColumnTile = 6;

// Gives the thread tiles for products of `depth` elements, and afterwards the configuration that it
// had: ONNX Runtime configures the tiles of a thread once. (The intrinsics of older compilers let
// them drop what is stored to the shapes.)
class TileScope {
 public:
  HWY_INLINE explicit TileScope(size_t depth) {
    asm volatile("sttilecfg %0" : "=m"(before_));
    TileShapes shapes;
    shapes.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      const bool is_row = tile >= kRowTile && tile < kColumnTile;
      const size_t bytes = is_row ? depth * sizeof(uint16_t) : kTileRowBytes;
      shapes.row_bytes[tile] = static_cast<uint16_t>(bytes);
      shapes.rows[tile] = static_cast<uint8_t>(tile >= kColumnTile ? depth / 2 : kTileRows);
    }
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  HWY_INLINE ~TileScope() {
    if (before_.palette == 0) {
      asm volatile("tilerelease");
    } else {
      asm volatile("ldtilecfg %0" : : "m"(before_));
    }
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  TileShapes before_;
};

template <int kTile>
HWY_INLINE void ClearTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
HWY_INLINE void LoadTile(const void* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void StoreTile(void* to, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
// Adds the products of rows and columns of bfloat16 to sums of float32.
template <int kSums, int kRows, int kColumns>
HWY_INLINE void AddTileProducts() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_TILES

#endif  // BITPRESS_KERNELS_TILES_INL_H_
