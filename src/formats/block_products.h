// The specification of matrix products with a right matrix in blocks, or in BF16, computed from its
// codes. The kernels of kernels/block_products.h equal it bit for bit on every instruction set.
// Pure.
//
// With blocks of a row and of a column, taken apart into elements and units
// (formats/block_units.h):
//   whole:  the products of whole numbers are added exactly as integers, and each block with one
//           float32 multiply-add to the sums of the blocks before it:
//           sum = fma(float(row elements * column elements) * column unit, row unit, sum);
//   parts:  where the rows have such a format, too: products of the rows' and the columns' values,
//           in parts of up to kPartElements elements, which are as many whole blocks as fit, or a
//           piece of a longer block. The elements with even places in their block and those with
//           odd ones have a chain of fused multiply-adds each, from zero and in order:
//           even = fma(row, value, even); and behind the part sum = sum + (even + odd).
//           Tiles of AMX sum so. Short chains lose less by rounding than a long one.
//   chain:  otherwise: one chain of fused multiply-adds from zero, in order:
//           sum = fma(row, value, sum).
//   terms:  in place of chain and of whole, if a model asks for the fastest order of sums and the
//           processor has tiles. A row's number is the sum of three numbers that bfloat16 holds
//           (TermsOf); of a block format it is one of them. A sum in parts adds even + odd of the
//           first terms of a part, of the second and of the third ones. It rounds 3 times for 32
//           products, a chain 32 times.
// A column's values are elements times units.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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

enum class ProductSums { kWhole, kParts, kChain };

// The order in which products with blocks are added.
enum class SumOrder {
  kFixed,    // the same bits on every processor
  kFastest,  // in terms, where the processor has tiles and there are rows enough for them
};

// The most elements of a part.
inline constexpr int64_t kPartElements = 32;

// Returns how many blocks of the columns a part has, if blocks are not longer than it.
inline int64_t BlocksOfPart(int64_t block_size) {
  return std::max<int64_t>(1, kPartElements / block_size);
}

// A sum in parts: of the parts before, and the chains of this one.
struct PartedSum {
  float total = 0, even = 0, odd = 0;

  void Add(size_t place, float row, float value) {
    float& chain = place % 2 == 0 ? even : odd;
    chain = std::fma(row, value, chain);
  }
  void EndPart() {
    total += even + odd;
    even = odd = 0;
  }
};

// Returns whether products with the format can be summed in terms: parts are as long as they get.
// (Elements of all formats with units are exact in bfloat16.)
bool HasTerms(const FormatSpec& columns);

// The word for SumOrder::kFastest in models.
inline constexpr const char* kFastestSums = "fastest";

// Terms have no number below this in magnitude, which counts as zero. They suit a row whose largest
// magnitude is 0 or within the other two, so that what is left out is below 2^-30 of it.
inline constexpr float kLeastOfTerms = 0x1p-57F;
inline constexpr float kLeastRowOfTerms = 0x1p-27F, kLargestRowOfTerms = 0x1p40F;

inline constexpr size_t kNumTerms = 3;

// Returns the terms of a finite number: the 8 upper bits of its significand, the next 8 of the
// rest, and what is left, which has 8 bits at most.
std::array<float, kNumTerms> TermsOf(float value);

// Returns why there is no such product, as a clause; "" if there is.
std::string WhyNoProduct(const ProductFormats& formats);

// Returns how such products are summed, if there are any.
ProductSums SumsOf(const ProductFormats& formats);

namespace ref {

// Writes c[i, j], the product of row i of `a` and column j of `b`. Both have the summed elements of
// a row or a column one after another. REQUIRES: WhyNoProduct(formats) is empty; the values of b
// and, if they have a format, of a are quantized; the spans are [rows, summed], [columns, summed]
// and [rows, columns].
void MultiplyBlocks(const ProductFormats& formats, const SummedShape& summed,
                    std::span<const float> a, std::span<const float> b, std::span<float> c);

// The same in terms, with `depth` summed elements. REQUIRES: terms suit the rows.
void MultiplyInTerms(size_t depth, std::span<const float> a, std::span<const float> b,
                     std::span<float> c);

}  // namespace ref
}  // namespace bitpress::formats
