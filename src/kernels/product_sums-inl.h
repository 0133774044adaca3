// The sums of a tile of products in blocks, and where they come from and go. For the vector code of
// block_products-inl.h, which alone includes it.
#if defined(BITPRESS_KERNELS_PRODUCT_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PRODUCT_SUMS_INL_H_
#undef BITPRESS_KERNELS_PRODUCT_SUMS_INL_H_
#else
#define BITPRESS_KERNELS_PRODUCT_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "kernels/limited-inl.h"
#include "kernels/product_codes-inl.h"
#include "kernels/product_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The rows and panels of a tile, for whose sums the registers have room. Arm has 32 of 128 bits,
// and without dot products it gathers integers in two for each that has sums.
constexpr size_t TileRows(RowForm form) {
  if (form == RowForm::kFloats) return 6;
  const bool is_gathered = form == RowForm::kWords || (form == RowForm::kBytes && !kHasDot);
  return kIsArm ? (is_gathered ? 2 : 4) : kParts == 1 ? 6 : 4;
}
constexpr size_t kTilePanels = kParts == 1 ? 4 : 1;
// Returns the panels of a tile of a single row. Codes of four bits become floats so fast that more
// sums are needed to hide the latency of their multiply-adds.
constexpr size_t RowPanels(PanelCodes codes, RowForm form) {
  const bool is_quick = codes == PanelCodes::kFour && form == RowForm::kFloats;
  return kParts > 1 ? 2 : is_quick ? 8 : 4;
}
// The most bytes of decoded codes of a tile: they stay in the second-level cache. (With 2^17 the
// products of SmolLM2, which sum 576 elements, took 6 to 13 % longer, on a processor with 2 MB of
// it.)
constexpr size_t kDecodedBytes = size_t{1} << 18;

// The codes of the panels of a tile. Blocks of a panel follow each other.
struct TileCodes {
  const uint8_t* codes;  // of the first panel's first block
  size_t panel_bytes;    // from one panel to the next
  size_t block_bytes;
  const uint8_t* doubled;
  size_t doubled_panel_bytes, doubled_block_bytes;
  const uint8_t* units;
  size_t units_panel_bytes;
};

// The sums of a tile's rows and columns.
template <size_t kRows, size_t kPanels>
struct Sums {
  static constexpr size_t kVectors = kPanels * kParts;
  VF values[kRows][kVectors];

  // GCC would give an implicit constructor no instruction set, and not inline those of vectors.
  HWY_INLINE Sums() {}
  HWY_INLINE void Load(const ProductTask& task, size_t row, size_t panel, bool is_first) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        values[r][v] = is_first ? hn::Zero(kDf) : LoadPart(task, row + r, panel, v);
      }
    }
  }
  HWY_INLINE void Store(const ProductTask& task, size_t row, size_t panel, bool is_last) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        StorePart(task, row + r, panel, v, values[r][v], is_last);
      }
    }
  }

  // Adds the exact sums of a block of whole numbers, which were counted from kWholeStartBits on.
  HWY_INLINE void AddWhole(const VI (&block)[kRows][kVectors], const TileCodes& tile, size_t b,
                           const float* const (&row_units)[kRows], size_t unit) {
    for (size_t v = 0; v < kVectors; ++v) {
      const WholeSums times_unit(Units(tile, b, v));
      for (size_t r = 0; r < kRows; ++r) {
        const VF scaled = times_unit(block[r][v]);
        values[r][v] = FusedMulAdd(scaled, hn::Set(kDf, row_units[r][unit]), values[r][v]);
      }
    }
  }

  static HWY_INLINE VF Units(const TileCodes& tile, size_t b, size_t v) {
    return UnitsAt(tile.units + v / kParts * tile.units_panel_bytes + b * kPanelColumns +
                   v % kParts * kLanes);
  }

 private:
  static HWY_INLINE size_t Left(const ProductTask& task, size_t column) {
    const size_t columns = task.panels->num_columns();
    return column < columns ? columns - column : 0;
  }
  static HWY_INLINE VF LoadPart(const ProductTask& task, size_t row, size_t panel, size_t v) {
    const size_t column = panel * kPanelColumns + v * kLanes;
    const float* const from = task.output->data + row * task.output->stride + column;
    const size_t left = Left(task, column);
    if (left >= kLanes) return hn::LoadU(kDf, from);
    HWY_ALIGN float buffer[kLanes] = {};
    std::memcpy(buffer, from, left * sizeof(float));
    return hn::Load(kDf, buffer);
  }
  static HWY_INLINE void StorePart(const ProductTask& task, size_t row, size_t panel, size_t v,
                                   VF sum, bool is_last) {
    const ProductOutput& output = *task.output;
    const size_t column = panel * kPanelColumns + v * kLanes;
    const size_t left = Left(task, column);
    if (left == 0) return;
    float* const to = output.data + row * output.stride + column;
    const bool is_whole = left >= kLanes;
    HWY_ALIGN float buffer[kLanes] = {};
    if (is_last && output.bias != nullptr) {
      const float* bias = output.bias + column;
      if (!is_whole) {
        std::memcpy(buffer, bias, left * sizeof(float));
        bias = buffer;
      }
      sum = hn::Add(sum, hn::LoadU(kDf, bias));
    }
    if (is_last && output.is_limited()) {
      sum = Limited(sum, hn::Set(kDf, output.least), hn::Set(kDf, output.largest));
    }
    if (is_whole) return hn::StoreU(sum, kDf, to);
    hn::Store(sum, kDf, buffer);
    std::memcpy(to, buffer, left * sizeof(float));
  }
};

// A copy of sums that a loop adds to, on Arm and with few registers: GCC would store others in each
// turn.
constexpr bool kIsCopied = kIsArm || kParts > 1;
template <size_t kRows, size_t kPanels>
using LoopSums = std::conditional_t<kIsCopied, Sums<kRows, kPanels>, Sums<kRows, kPanels>&>;

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_PRODUCT_SUMS_INL_H_
