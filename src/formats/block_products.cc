#include "formats/block_products.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "formats/block_units.h"
#include "formats/float_bits.h"

namespace bitpress::formats {
namespace {

bool IsWhole(const FormatSpec& spec) {
  const std::optional<BlockUnits> units = BlockUnitsOf(spec);
  return units && units->is_whole();
}

float UnitValue(uint8_t unit) {
  return FloatFromBits(static_cast<uint32_t>(unit) << kFloatMantissaBits);
}

}  // namespace

std::string WhyNoProduct(const ProductFormats& formats) {
  const FormatSpec& columns = formats.columns;
  const std::optional<BlockUnits> units = BlockUnitsOf(columns);
  if (!units) {
    return columns.is_blocked() ? fmt::format("{} has elements of more than 9 bits", columns.name)
                                : fmt::format("{} has no blocks", columns.name);
  }
  if (SumsOf(formats) != ProductSums::kWhole) return "";
  if (formats.rows->block_size != columns.block_size) {
    return fmt::format("blocks of {} and of {}", formats.rows->block_size, columns.block_size);
  }
  constexpr double kMostSum = 1U << 22U;  // kernels need sums that float32 holds twice over
  const double largest = (units->largest + 1.0) * (BlockUnitsOf(*formats.rows)->largest + 1.0);
  return largest * columns.block_size < kMostSum ? ""
                                                 : fmt::format("blocks of {}", columns.block_size);
}

bool HasTerms(const FormatSpec& columns) {
  return BlockUnitsOf(columns) &&
         (BlockOf(columns) % kPartElements == 0 || 2 * BlockOf(columns) == kPartElements);
}

ProductSums SumsOf(const ProductFormats& formats) {
  if (!formats.rows || !BlockUnitsOf(*formats.rows)) return ProductSums::kChain;
  const bool is_whole = IsWhole(*formats.rows) && IsWhole(formats.columns);
  return is_whole ? ProductSums::kWhole : ProductSums::kParts;
}

std::array<float, kNumTerms> TermsOf(float value) {
  constexpr uint32_t kUpperHalf = 0xFFFF0000;
  std::array<float, kNumTerms> terms{};
  float rest = std::fabs(value) < kLeastOfTerms ? 0.0F : value;
  for (float& term : terms) {
    term = FloatFromBits(FloatBits(rest) & kUpperHalf);
    rest -= term;
  }
  return terms;
}

namespace ref {

void MultiplyBlocks(const ProductFormats& formats, const SummedShape& summed,
                    std::span<const float> a, std::span<const float> b, std::span<float> c) {
  BITPRESS_DCHECK(WhyNoProduct(formats).empty());
  const auto depth = static_cast<size_t>(summed.num_elements());
  const auto length = static_cast<size_t>(summed.length);
  const size_t num_rows = depth > 0 ? a.size() / depth : 0;
  const size_t num_columns = depth > 0 ? b.size() / depth : 0;
  std::ranges::fill(c, 0.0F);
  const bool is_whole = SumsOf(formats) == ProductSums::kWhole;
  const bool is_chain = SumsOf(formats) == ProductSums::kChain;
  const BlockUnits column_units = *BlockUnitsOf(formats.columns);
  const BlockUnits row_units = is_whole ? *BlockUnitsOf(*formats.rows) : BlockUnits{};
  const auto most = static_cast<size_t>(BlockOf(formats.columns));
  const auto of_part = static_cast<size_t>(BlocksOfPart(static_cast<int64_t>(most)));
  for (size_t i = 0; i < num_rows; ++i) {
    for (size_t j = 0; j < num_columns; ++j) {
      float& sum = c[i * num_columns + j];
      PartedSum parts;
      for (size_t k = 0, block = 0; k < depth; ++block) {
        const size_t count = std::min(most, length - k % length);
        const std::span<const float> row = a.subspan(i * depth + k, count);
        const UnitBlock column = TakeApart(column_units, b.subspan(j * depth + k, count));
        const float column_unit = UnitValue(column.unit);
        if (is_whole) {
          const UnitBlock whole_row = TakeApart(row_units, row);
          int32_t products = 0;
          for (size_t n = 0; n < count; ++n) {
            products += static_cast<int32_t>(whole_row.elements[n]) *
                        static_cast<int32_t>(column.elements[n]);
          }
          const bool is_nan = whole_row.unit == kNanUnit;
          sum = std::fma(static_cast<float>(products) * column_unit,
                         is_nan ? std::nanf("") : UnitValue(whole_row.unit), sum);
        } else {
          const float unit = column.unit == kNanUnit ? std::nanf("") : column_unit;
          if (block % of_part == 0) parts.EndPart();
          for (size_t n = 0; n < count; ++n) {
            const float value = column.elements[n] * unit;
            if (is_chain) {
              sum = std::fma(row[n], value, sum);
              continue;
            }
            if (n > 0 && n % size_t{kPartElements} == 0) parts.EndPart();
            parts.Add(n, row[n], value);
          }
        }
        k += count;
      }
      parts.EndPart();
      if (!is_whole && !is_chain) sum = parts.total;
    }
  }
}

void MultiplyInTerms(size_t depth, std::span<const float> a, std::span<const float> b,
                     std::span<float> c) {
  const size_t num_rows = depth > 0 ? a.size() / depth : 0;
  const size_t num_columns = depth > 0 ? b.size() / depth : 0;
  std::ranges::fill(c, 0.0F);
  for (size_t i = 0; i < num_rows; ++i) {
    for (size_t j = 0; j < num_columns; ++j) {
      PartedSum sum;
      for (size_t begin = 0; begin < depth; begin += kPartElements) {
        const size_t end = std::min(begin + size_t{kPartElements}, depth);
        for (size_t term = 0; term < kNumTerms; ++term) {
          for (size_t k = begin; k < end; ++k) {
            sum.Add(k, TermsOf(a[i * depth + k])[term], b[j * depth + k]);
          }
          sum.EndPart();
        }
      }
      c[i * num_columns + j] = sum.total;
    }
  }
}

}  // namespace ref
}  // namespace bitpress::formats
