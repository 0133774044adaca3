#include "kernels/float_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_products.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "kernels/scratch.h"
#include "kernels/unroll.h"

#ifndef BITPRESS_KERNELS_FLOAT_PRODUCTS_SHAPE_
#define BITPRESS_KERNELS_FLOAT_PRODUCTS_SHAPE_
namespace bitpress::kernels {
// Rows of a tile of sums, which are also those of a panel of the packed left matrix.
inline constexpr size_t kTileRows = 6;
// Rows of B that are summed at once, and the columns of B that are packed at once: they stay in the
// second level of the cache.
inline constexpr size_t kDepthAtOnce = 256, kColumnsAtOnce = 512;
}  // namespace bitpress::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, 16> kTileD;
constexpr size_t kTileLanes = hn::MaxLanes(kTileD);
constexpr size_t kTileColumns = 2 * kTileLanes;

// Copies rows x columns of B into panels of kTileColumns columns, filled up with zeros.
HWY_INLINE void PackColumns(const MatrixView& b, size_t depth, size_t columns, float* out) {
  for (size_t first = 0; first < columns; first += kTileColumns, out += depth * kTileColumns) {
    const size_t count = std::min(kTileColumns, columns - first);
    const float* const from = b.data + first * b.column_stride;
    if (count < kTileColumns) std::fill_n(out, depth * kTileColumns, 0.0F);
    if (b.column_stride == 1) {
      for (size_t k = 0; k < depth; ++k) {
        std::memcpy(out + k * kTileColumns, from + k * b.row_stride, count * sizeof(float));
      }
      continue;
    }
    for (size_t j = 0; j < count; ++j) {
      for (size_t k = 0; k < depth; ++k) {
        out[k * kTileColumns + j] = from[k * b.row_stride + j * b.column_stride];
      }
    }
  }
}

// Adds the products of a panel of A with one of B to a tile of C, or writes them.
HWY_INLINE void MultiplyTile(const float* a, const float* b, size_t depth, size_t rows,
                             size_t columns, float* c, size_t c_stride, bool adds) {
  using V = hn::VFromD<decltype(kTileD)>;
  V sums[kTileRows][2];
  Unroll<kTileRows>([&](auto i) HWY_ATTR { sums[i][0] = sums[i][1] = hn::Zero(kTileD); });
  for (size_t k = 0; k < depth; ++k, a += kTileRows, b += kTileColumns) {
    const V first = hn::Load(kTileD, b);
    const V second = hn::Load(kTileD, b + kTileLanes);
    Unroll<kTileRows>([&](auto i) HWY_ATTR {
      const V factor = hn::Set(kTileD, a[i]);
      sums[i][0] = hn::MulAdd(factor, first, sums[i][0]);
      sums[i][1] = hn::MulAdd(factor, second, sums[i][1]);
    });
  }
  if (rows == kTileRows && columns == kTileColumns) {
    Unroll<kTileRows>([&](auto i) HWY_ATTR {
      float* const at = c + i * c_stride;
      float* const behind = at + kTileLanes;
      hn::StoreU(adds ? hn::Add(sums[i][0], hn::LoadU(kTileD, at)) : sums[i][0], kTileD, at);
      hn::StoreU(adds ? hn::Add(sums[i][1], hn::LoadU(kTileD, behind)) : sums[i][1], kTileD,
                 behind);
    });
    return;
  }
  HWY_ALIGN float tile[kTileRows][kTileColumns];
  Unroll<kTileRows>([&](auto i) HWY_ATTR {
    hn::Store(sums[i][0], kTileD, tile[i]);
    hn::Store(sums[i][1], kTileD, tile[i] + kTileLanes);
  });
  for (size_t i = 0; i < rows; ++i, c += c_stride) {
    for (size_t j = 0; j < columns; ++j) c[j] = adds ? c[j] + tile[i][j] : tile[i][j];
  }
}

void MultiplyPacked(const float* a, size_t rows, size_t depth, size_t columns, const MatrixView& b,
                    float* c, size_t c_stride, bool adds) {
  const Scratch scratch(kDepthAtOnce * (kColumnsAtOnce + kTileColumns) * sizeof(float));
  float* const packed = scratch.data<float>();
  for (size_t k = 0; k < depth; k += kDepthAtOnce) {
    const size_t part = std::min(kDepthAtOnce, depth - k);
    for (size_t j = 0; j < columns; j += kColumnsAtOnce) {
      const size_t width = std::min(kColumnsAtOnce, columns - j);
      const float* const from = b.data + k * b.row_stride + j * b.column_stride;
      PackColumns({from, b.row_stride, b.column_stride}, part, width, packed);
      for (size_t i = 0; i < rows; i += kTileRows) {
        const float* const panel = a + i * depth + k * kTileRows;
        for (size_t n = 0; n < width; n += kTileColumns) {
          MultiplyTile(panel, packed + n * part, part, std::min(kTileRows, rows - i),
                       std::min(kTileColumns, width - n), c + i * c_stride + j + n, c_stride,
                       adds || k > 0);
        }
      }
    }
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using MultiplyKernel = void (*)(const float*, size_t, size_t, size_t, const MatrixView&, float*,
                                size_t, bool);
constexpr MultiplyKernel kMultiplyTable[] = BITPRESS_DISPATCH_TABLE(MultiplyPacked);

void PackedMatrix::Pack(size_t rows, size_t depth, const MatrixView& matrix) {
  rows_ = rows;
  depth_ = depth;
  data_.resize((rows + kTileRows - 1) / kTileRows * kTileRows * depth);
  float* out = data_.data();
  for (size_t first = 0; first < rows; first += kTileRows, out += kTileRows * depth) {
    const size_t count = std::min(kTileRows, rows - first);
    if (count < kTileRows) std::fill_n(out, kTileRows * depth, 0.0F);
    if (matrix.row_stride == 1) {  // a turned matrix, whose columns lie in a row
      for (size_t k = 0; k < depth; ++k) {
        const float* const column = matrix.data + first + k * matrix.column_stride;
        for (size_t i = 0; i < count; ++i) out[k * kTileRows + i] = column[i];
      }
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      const float* const row = matrix.data + (first + i) * matrix.row_stride;
      for (size_t k = 0; k < depth; ++k) out[k * kTileRows + i] = row[k * matrix.column_stride];
    }
  }
}

void Multiply(const PackedMatrix& a, size_t columns, const MatrixView& b, float* c, size_t c_stride,
              bool adds) {
  if (a.depth() == 0 && !adds) {
    for (size_t i = 0; i < a.rows(); ++i) std::fill_n(c + i * c_stride, columns, 0.0F);
  }
  kMultiplyTable[ChosenTargetIndex()](a.data(), a.rows(), a.depth(), columns, b, c, c_stride, adds);
}

}  // namespace bitpress::kernels
#endif
