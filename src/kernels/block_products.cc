#include "kernels/block_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_products.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "base/processors.h"
#include "base/round_up.h"
#include "kernels/byte_codes.h"
#include "kernels/dispatch.h"
#include "kernels/product_task.h"

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_without_dot.inc"
#include "kernels/block_products-inl.h"
#ifndef BITPRESS_PRODUCTS_WITH_DOT
namespace bitpress::kernels::HWY_NAMESPACE {
void Multiply(const ProductTask& task) { MultiplyPortably(task); }
}  // namespace bitpress::kernels::HWY_NAMESPACE
#endif
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE

#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

namespace bitpress::kernels {
namespace {

constexpr ProductKernel kProductTable[] = BITPRESS_DISPATCH_TABLE(Multiply);

std::atomic<bool>& IsDotAllowed() {
  static std::atomic<bool> is_allowed{true};
  return is_allowed;
}

// Returns whether the processor has dot products in vectors of a target, which it can run and which
// has code for them.
bool ProcessorHasDot(size_t target) {
#if HWY_ARCH_X86_64
  // The bits of leaf 7: the first list tells of AVX-512 VNNI, the second one of AVX-VNNI.
  constexpr unsigned kAvx512Vnni = 1U << 11U, kAvxVnni = 1U << 4U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const unsigned list = target <= kAvx3Index ? 0 : 1;
  if (__get_cpuid_count(7, list, &eax, &ebx, &ecx, &edx) == 0) return false;
  return target <= kAvx3Index ? (ecx & kAvx512Vnni) != 0 : (eax & kAvxVnni) != 0;
#else
  static_cast<void>(target);
#if defined(__ARM_FEATURE_DOTPROD)
  return true;
#else
  return HasArmDotProducts();
#endif
#endif
}

ProductKernel DotKernel() {
  static const std::array<bool, kTargetNames.size()> has_dot = [] {
    std::array<bool, kTargetNames.size()> has{};
    for (size_t i = 0; i < has.size(); ++i) {
      has[i] = DotProductKernel(i) != nullptr && ProcessorHasDot(i);
    }
    return has;
  }();
  const size_t target = ChosenTargetIndex();
  return has_dot[target] && IsDotAllowed() ? DotProductKernel(target) : nullptr;
}

size_t ElementsOfGroup(PanelCodes codes) {
  return codes == PanelCodes::kFour ? 8 : codes == PanelCodes::kSix ? 16 : 4;
}

RowForm FormOf(const ProductPanels& panels, const std::optional<formats::FormatSpec>& rows) {
  if (formats::SumsOf({panels.spec(), rows}) != formats::ProductSums::kWhole) {
    return RowForm::kFloats;
  }
  const formats::BlockUnits rule = *formats::BlockUnitsOf(*rows);
  if (panels.codes_kind() == PanelCodes::kNine || rule.largest > INT8_MAX) return RowForm::kWords;
  if (DotKernel() != nullptr) return RowForm::kBytes;
  const size_t steps = StepsInWords(panels.largest_code(), -rule.least());
  const bool fits = 4 * steps >= ElementsOfGroup(panels.codes_kind());
  return fits ? RowForm::kBytes : RowForm::kWords;
}

// Returns whether tiles, or pairs in their place, multiply such a product, and do so faster than
// other vectors: these multiply few rows while tiles wait for columns to be decoded, but not in
// blocks of 16, by words or floats.
bool AreQuickInTiles(const ProductPanels& panels, const std::optional<formats::FormatSpec>& rows,
                     size_t num_rows) {
  if (!HasQuickParts() || panels.num_blocks() == 0 || !panels.has_close_units()) return false;
  const formats::ProductSums sums = formats::SumsOf({panels.spec(), rows});
  if (sums == formats::ProductSums::kChain) return false;
  if (sums == formats::ProductSums::kParts) {
    // Parts must be those of tiles.
    return num_rows >= kTileRows && panels.padded_block() % kTileDepth == 0;
  }
  const bool are_bytes = FormOf(panels, rows) == RowForm::kBytes;
  // Vectors multiply twice as many bytes at a time.
  if (!HasTiles() && are_bytes) return false;
  const bool is_quick = panels.padded_block() != 16 && are_bytes;
  return num_rows >= (is_quick ? 48U : 16U) && FitsTiles(panels.rule()) &&
         FitsTiles(*formats::BlockUnitsOf(*rows));
}

// Returns whether a product is summed in terms: of the fastest order, what a processor with tiles
// would sum otherwise.
bool AreInTerms(const ProductPanels& panels, const std::optional<formats::FormatSpec>& rows,
                size_t num_rows, formats::SumOrder order) {
  if (order != formats::SumOrder::kFastest || !HasTiles() || !panels.has_close_units() ||
      panels.num_blocks() == 0 || !formats::HasTerms(panels.spec()) ||
      panels.summed().segments != 1) {
    return false;
  }
  const formats::ProductSums sums = formats::SumsOf({panels.spec(), rows});
  if (sums == formats::ProductSums::kChain) return num_rows >= kTileRows;
  return sums == formats::ProductSums::kWhole && AreQuickInTiles(panels, rows, num_rows);
}

RowForm FormOf(const ProductPanels& panels, const std::optional<formats::FormatSpec>& rows,
               size_t num_rows, formats::SumOrder order) {
  if (AreInTerms(panels, rows, num_rows, order)) return RowForm::kTerms;
  if (!AreQuickInTiles(panels, rows, num_rows)) return FormOf(panels, rows);
  const bool is_whole = formats::SumsOf({panels.spec(), rows}) == formats::ProductSums::kWhole;
  return HasTiles() || is_whole ? RowForm::kTiles : RowForm::kPairs;
}

void RunVectors(const ProductTask& part) {
  const ProductKernel with_dot = part.rows->form() != RowForm::kFloats ? DotKernel() : nullptr;
  (with_dot != nullptr ? with_dot : kProductTable[ChosenTargetIndex()])(part);
}

}  // namespace

BlockProduct::BlockProduct(const ProductPanels& panels,
                           const std::optional<formats::FormatSpec>& rows,
                           const ProductInput& input, const ProductOutput& output,
                           formats::SumOrder order)
    : panels_(panels),
      format_(rows),
      input_(input),
      output_(output),
      sums_(formats::SumsOf({panels.spec(), rows})),
      rows_(panels, rows, FormOf(panels, rows, input.num_rows, order), input.data, input.num_rows,
            input.stride) {
  BITPRESS_DCHECK(formats::WhyNoProduct({panels.spec(), rows}).empty());
  if (sums_ == formats::ProductSums::kWhole) {
    steps_in_words_ = StepsInWords(panels.largest_code(), -formats::BlockUnitsOf(*rows)->least());
  }
  // Tasks of many rows decode their columns only once, but there are some for every thread.
  constexpr size_t kLeastRows = 48, kMostRows = 960;  // whole tiles of all targets
  constexpr size_t kManyTasks = 16;
  // The largest tiles of one row have eight panels. Few panels are divided evenly instead.
  constexpr size_t kManyPanels = 64;
  panels_per_chunk_ = input.num_rows == 1 && panels.num_panels() >= kManyPanels ? 8 : 4;
  // Tiles read their rows once for all panels of a task.
  constexpr size_t kMostTilePanels = 16, kMostTileRows = 384;
  if (has_tiles()) {
    panels_per_chunk_ =
        std::clamp(RoundUp(panels.num_panels() / kManyTasks, 2), size_t{4}, kMostTilePanels);
  }
  panel_chunks_ = (panels.num_panels() + panels_per_chunk_ - 1) / panels_per_chunk_;
  const size_t wanted = (kManyTasks + panel_chunks_ - 1) / std::max<size_t>(1, panel_chunks_);
  const size_t per_chunk = input.num_rows / std::max<size_t>(1, wanted);
  rows_per_chunk_ = std::clamp((per_chunk + kLeastRows - 1) / kLeastRows * kLeastRows, kLeastRows,
                               has_tiles() ? kMostTileRows : kMostRows);
  row_chunks_ = (input.num_rows + rows_per_chunk_ - 1) / rows_per_chunk_;
}

void BlockProduct::RunTask(size_t task) const {
  ProductTask part{&panels_, &rows_, &output_, sums_, steps_in_words_, 0, 0, 0, 0};
  part.row_begin = task / panel_chunks_ * rows_per_chunk_;
  part.row_end = std::min(part.row_begin + rows_per_chunk_, rows_.num_rows());
  part.panel_begin = task % panel_chunks_ * panels_per_chunk_;
  part.panel_end = std::min(part.panel_begin + panels_per_chunk_, panels_.num_panels());
  if (has_tiles()) {
    if (!rows_.fit_tiles()) return RunWithoutTiles(part);
    return (HasTiles() ? TileProductKernel() : PairProductKernel())(part);
  }
  // Numbers of kWholeStart times such units could overflow in vector code.
  if (panels_.has_large_unit()) return MultiplyPortably(part);
  RunVectors(part);
}

// Rows with tiny or huge units are rare, so that each task takes its own apart again.
void BlockProduct::RunWithoutTiles(ProductTask part) const {
  ProductRows rows(panels_, format_, FormOf(panels_, format_),
                   input_.data + part.row_begin * input_.stride, part.row_end - part.row_begin,
                   input_.stride);
  for (size_t task = 0; task < rows.num_tasks(); ++task) rows.RunTask(task);
  ProductOutput output = output_;
  output.data += part.row_begin * output.stride;
  part.rows = &rows;
  part.output = &output;
  part.row_end -= part.row_begin;
  part.row_begin = 0;
  RunVectors(part);
}

void BlockProduct::Run() {
  for (size_t task = 0; task < num_row_tasks(); ++task) RunRowTask(task);
  for (size_t task = 0; task < num_tasks(); ++task) RunTask(task);
}

void UseDotProducts(bool is_allowed) { IsDotAllowed() = is_allowed; }
bool HasDotProducts() { return DotKernel() != nullptr; }
bool HasTiles() { return ChosenTargetIndex() == kAmxIndex && IsDotAllowed(); }
bool HasQuickParts() { return ChosenTargetIndex() <= kBfloat16Index && IsDotAllowed(); }

}  // namespace bitpress::kernels
#endif
