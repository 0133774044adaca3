// Matrix products whose right matrix lies in blocks of codes, on every instruction set the same
// bits as formats::ref::MultiplyBlocks, or in the fastest order of sums. Work is cut into
// independent tasks, which a caller runs on threads of its own. For example:
//
//   const ProductPanels panels(spec, view, packed, pool);    // once
//   BlockProduct product(panels, rows_format, a, c);         // c = a x panels
//   pool.ParallelFor(product.num_row_tasks(), [&](size_t i) { product.RunRowTask(i); });
//   pool.ParallelFor(product.num_tasks(), [&](size_t i) { product.RunTask(i); });
#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "formats/block_products.h"
#include "kernels/product_panels.h"
#include "kernels/product_rows.h"

namespace bitpress::kernels {

// The left matrix: row i begins at data + i * stride.
struct ProductInput {
  const float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;
};

// The result: row i begins at data + i * stride. The kernel adds `bias`, one number a column, if
// there is one, and then limits what it writes to [least, largest].
struct ProductOutput {
  float* data = nullptr;
  size_t stride = 0;
  const float* bias = nullptr;
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();

  bool is_limited() const {
    return least > -std::numeric_limits<float>::infinity() ||
           largest < std::numeric_limits<float>::infinity();
  }
};

struct ProductTask;

class BlockProduct {
 public:
  // The rows have values of the format `rows`; others are rounded to elements of their blocks. With
  // nothing they are any floats. In the fastest order, rows that terms suit have the bits of
  // formats::ref::MultiplyInTerms where there are tiles and rows enough. REQUIRES:
  // formats::WhyNoProduct is empty for the two formats. The panels and the matrices outlive it.
  BlockProduct(const ProductPanels& panels, const std::optional<formats::FormatSpec>& rows,
               const ProductInput& input, const ProductOutput& output,
               formats::SumOrder order = formats::SumOrder::kFixed);

  // Returns whether it uses the tiles of AMX, or dot products of bfloat16 in their place.
  bool has_tiles() const { return rows_.are_in_tiles(); }
  // The tasks of the first loop, which takes rows apart, and of the second, which multiplies.
  size_t num_row_tasks() const { return rows_.num_tasks(); }
  void RunRowTask(size_t task) { rows_.RunTask(task); }
  size_t num_tasks() const { return row_chunks_ * panel_chunks_; }
  void RunTask(size_t task) const;
  // Runs all tasks on this thread.
  void Run();

 private:
  // Runs a part of a product for whose rows tiles are no good.
  void RunWithoutTiles(ProductTask part) const;

  const ProductPanels& panels_;
  std::optional<formats::FormatSpec> format_;  // of the rows
  ProductInput input_;
  ProductOutput output_;
  formats::ProductSums sums_;
  ProductRows rows_;
  size_t steps_in_words_ = 0;
  size_t rows_per_chunk_ = 1, row_chunks_ = 0;
  size_t panels_per_chunk_ = 1, panel_chunks_ = 0;
};

// Lets products use the dot products of bytes that the processor has (VNNI, or those of Arm), as by
// default. For tests and benches; not thread-safe against running products.
void UseDotProducts(bool is_allowed);
// Returns whether the processor has them, and they are used.
bool HasDotProducts();
// Returns whether the kernels may use tiles ("AMX"), too.
bool HasTiles();
// Returns whether they sum parts, which are products of bfloat16, faster than floats are
// multiplied: with tiles, or with dot products ("AVX3_BF16").
bool HasQuickParts();

}  // namespace bitpress::kernels
