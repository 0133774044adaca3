// A task of a product in blocks, with what it reads and writes. Internal to
// kernels/block_products.h.
#pragma once

#include <cstddef>

#include "kernels/block_products.h"

namespace bitpress::kernels {

// The rows [row_begin, row_end) times the columns of panels [panel_begin, panel_end).
struct ProductTask {
  const ProductPanels* panels = nullptr;
  const ProductRows* rows = nullptr;
  const ProductOutput* output = nullptr;
  formats::ProductSums sums = formats::ProductSums::kChain;
  // The largest number of steps of four elements whose products of bytes, added in pairs, stay
  // within 16 bits. It matters to processors without dot products only.
  size_t steps_in_words = 0;
  size_t row_begin = 0, row_end = 0;
  size_t panel_begin = 0, panel_end = 0;
};
using ProductKernel = void (*)(const ProductTask&);

// The version without vectors.
void MultiplyPortably(const ProductTask& task);

// The version that uses dot products of bytes, for a target by its index in kTargetNames, or null.
ProductKernel DotProductKernel(size_t target);

// The versions that use tiles, and dot products of bfloat16 in their place, or null if this build
// has none.
ProductKernel TileProductKernel();
ProductKernel PairProductKernel();

}  // namespace bitpress::kernels
