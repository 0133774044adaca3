// The specification of matrix products with a right matrix in blocks, computed from its codes. The
// kernels of kernels/block_products.h equal it bit for bit on every instruction set. Pure.
//
// With blocks of a row and of a column, taken apart into elements and units
// (formats/block_units.h):
//   whole:  the products of whole numbers are added exactly as integers, and each block with one
//           float32 multiply-add to the sums of the blocks before it:
//           sum = fma(float(row elements * column elements) * column unit, row unit, sum);
//   floats: one chain of fused multiply-adds from zero, in order, of the row's floats and the
//           column's values, which are elements times units: sum = fma(row, value, sum).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "formats/format_spec.h"

namespace bitpress::formats {

// The formats of a product.
struct ProductFormats {
  FormatSpec columns;              // of the right matrix, which is quantized already
  std::optional<FormatSpec> rows;  // whose values the left matrix has; nothing: any floats
};

// The order of summed elements: segments, each of which begins a new block. A matrix product has
// one segment. A convolution has one for each position of its kernel.
struct SummedShape {
  int64_t segments = 1;
  int64_t length = 0;  // of a segment

  int64_t num_elements() const { return segments * length; }
};

// Returns why there is no such product, as a clause; "" if there is.
std::string WhyNoProduct(const ProductFormats& formats);

// Returns whether products are sums of integers. REQUIRES: WhyNoProduct(formats) is empty.
bool IsWholeProduct(const ProductFormats& formats);

namespace ref {

// Writes c[i, j], the product of row i of `a` and column j of `b`. Both have the summed elements of
// a row or a column one after another. REQUIRES: WhyNoProduct(formats) is empty; the values of b
// and, if they have a format, of a are quantized; the spans are [rows, summed], [columns, summed]
// and [rows, columns].
void MultiplyBlocks(const ProductFormats& formats, const SummedShape& summed,
                    std::span<const float> a, std::span<const float> b, std::span<float> c);

}  // namespace ref
}  // namespace bitpress::formats
