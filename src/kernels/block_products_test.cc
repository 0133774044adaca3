#include "kernels/block_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "formats/reference.h"
#include "kernels/pack_tensor.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

using formats::FindFormat;
using formats::FormatSpec;
using formats::ProductFormats;
using formats::SumOrder;

// Numbers of different sizes: blocks have different units, some are zeros, tiny or huge; close ones
// are neither tiny nor huge.
std::vector<float> MatrixNumbers(size_t count, uint32_t seed, bool are_close = false) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t piece = i / 24 % 23;
    const float size = piece == 3    ? 0.0F
                       : piece == 7  ? (are_close ? 1e-3F : 1e-38F)
                       : piece == 11 ? (are_close ? 1e4F : 1e15F)
                                     : std::ldexp(1.0F, static_cast<int>(i / 40 % 7) - 3);
    values[i] = normal(random) * size;
  }
  return values;
}

// A quantized right matrix: its values column after column, and its packed tensor.
struct Columns {
  Columns(const FormatSpec& spec, const ColumnsView& v, uint32_t seed, bool are_close = false)
      : view(v) {
    const size_t count = static_cast<size_t>(view.outer * view.axis * view.inner);
    std::vector<float> tensor = MatrixNumbers(count, seed, are_close);
    formats::ref::FakeQuantize(spec, tensor, tensor, view.outer, view.axis, view.inner);
    packed = formats::PackedTensor(formats::SizesOf(spec, view.outer, view.axis, view.inner));
    ThreadPool pool(1);
    PackTensor(spec, view.outer, view.axis, view.inner, tensor, packed.spans(), pool);
    values.resize(count);
    const auto axis = static_cast<size_t>(view.axis), inner = static_cast<size_t>(view.inner);
    for (size_t i = 0; i < count; ++i) {
      const size_t o = i / (axis * inner), a = i / inner % axis, n = i % inner;
      values[view.are_inner ? n * axis + a : (o * inner + n) * axis + a] = tensor[i];
    }
  }

  ColumnsView view;
  formats::PackedTensor packed;
  std::vector<float> values;
};

// Rows in a format, or floats.
std::vector<float> Rows(const std::optional<FormatSpec>& format, const formats::SummedShape& summed,
                        size_t num_rows, uint32_t seed) {
  const auto outer = static_cast<int64_t>(num_rows) * summed.segments;
  std::vector<float> a = MatrixNumbers(static_cast<size_t>(outer * summed.length), seed);
  if (num_rows > 2 && a.size() > 9) a[a.size() / 2] = std::nanf("");
  if (format) formats::ref::FakeQuantize(*format, a, a, outer, summed.length, 1);
  return a;
}

std::vector<float> Multiply(const ProductPanels& panels, const std::optional<FormatSpec>& rows,
                            const std::vector<float>& a, size_t num_rows, ProductOutput output = {},
                            SumOrder order = SumOrder::kFixed) {
  const size_t columns = panels.num_columns();
  constexpr size_t kGap = 3;
  std::vector<float> c(num_rows * (columns + kGap), -7.0F);
  output.data = c.data();
  output.stride = columns + kGap;
  const size_t stride = num_rows > 0 ? a.size() / num_rows : 0;
  BlockProduct(panels, rows, {a.data(), num_rows, stride}, output, order).Run();
  std::vector<float> result;
  for (size_t i = 0; i < num_rows; ++i) {
    const auto row = c.begin() + static_cast<std::ptrdiff_t>(i * output.stride);
    result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(columns));
    for (size_t n = 0; n < kGap; ++n) EXPECT_EQ(row[static_cast<std::ptrdiff_t>(columns + n)], -7);
  }
  return result;
}

// Rows of a left matrix: how many, and their format, or floats.
struct RowsOfProduct {
  std::optional<FormatSpec> format;
  size_t count = 0;
};

// Compares kernels with the reference, for one right matrix and several left ones.
void CheckProducts(const FormatSpec& spec, const ColumnsView& view,
                   const std::vector<RowsOfProduct>& products, size_t num_threads = 1) {
  SCOPED_TRACE(fmt::format("{} [{}, {}, {}]{}", spec.name, view.outer, view.axis, view.inner,
                           view.are_inner ? " inner" : ""));
  const Columns columns(spec, view, 5);
  const auto num_columns = static_cast<size_t>(view.num_columns());
  std::vector<std::vector<float>> rows, expected;
  for (const RowsOfProduct& product : products) {
    rows.push_back(Rows(product.format, view.summed(), product.count, 6));
    expected.emplace_back(product.count * num_columns);
    formats::ref::MultiplyBlocks({spec, product.format}, view.summed(), rows.back(), columns.values,
                                 expected.back());
  }
  ThreadPool pool(num_threads);
  OnEveryVariant([&] {
    const ProductPanels panels(spec, view, columns.packed.view(), pool);
    for (size_t i = 0; i < products.size(); ++i) {
      const auto& [format, count] = products[i];
      SCOPED_TRACE(fmt::format("{} rows as {}", count, format ? format->name : "floats"));
      ExpectSameBits(Multiply(panels, format, rows[i], count), expected[i]);
    }
  });
}

class BlockProductsInFormat : public testing::TestWithParam<const char*> {
 protected:
  const FormatSpec spec_ = FindFormat(GetParam());
};

INSTANTIATE_TEST_SUITE_P(OfTheTable, BlockProductsInFormat,
                         testing::Values("mxfp4_e2m1", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3",
                                         "mxfp8_e5m2", "mxint8", "mx4", "mx6", "mx9", "bfp16",
                                         "bf16"));
INSTANTIATE_TEST_SUITE_P(
    WholeRest, BlockProductsInFormat,
    testing::Values("bfp(bits=13,block=32)", "bfp(bits=12,block=12)", "bfp(bits=16,block=64)",
                    "bfp(bits=10,block=5)", "bfp(bits=12,block=16,exponent_bits=5)",
                    "mx(bits=12,block=32)", "mx(bits=15,block=24,sub_block=4,shift_bits=1)",
                    "mx(bits=13,block=20,sub_block=4,shift_bits=2)", "mx(bits=10,block=128)",
                    "mxint8(block=16)", "mxint8(block=1)", "mxint8(block=255)",
                    "mxfp4_e2m1(block=16)", "mxfp6_e2m3(block=128)", "mxfp8_e4m3(block=48)",
                    "mxfp8_e5m2(block=65536)"));

TEST_P(BlockProductsInFormat, EqualTheReference) {
  std::vector<std::optional<FormatSpec>> formats{std::nullopt, spec_};
  for (const char* const other : {"mxint8", "mx9", "bfp16", "mxfp8_e4m3", "bf16"}) {
    const FormatSpec rows = FindFormat(other);
    if (formats::BlockOf(rows) == formats::BlockOf(spec_)) formats.emplace_back(rows);
  }
  const auto check = [&](const ColumnsView& view, std::initializer_list<size_t> counts) {
    std::vector<RowsOfProduct> products;
    for (const auto& format : formats) {
      ASSERT_EQ(formats::WhyNoProduct({spec_, format}), "");
      for (const size_t count : counts) products.push_back({format, count});
    }
    CheckProducts(spec_, view, products);
  };
  check({70, 100, 1, false}, {1, 2, 3, 9});
  check({1, 100, 33, true}, {5});
  check({1050, 70, 1, false}, {1});  // tiles of one row, as wide as they get
  check({17, 20, 9, false}, {5});    // a kernel of 3 x 3
  check({3, 7, 1, false}, {6});
}

// Sums of one row may be counted in units of the blocks.
TEST_P(BlockProductsInFormat, EqualTheReferenceForARowInUnits) {
  const Columns columns(spec_, {1040, 140, 1, false}, 5, /*are_close=*/true);
  std::vector<std::vector<float>> rows, expected;
  for (const float factor :
       {1.0F, 0x1p-60F, 0x1p25F, 0x1p-120F, 0x1p90F}) {  // the last two are not close
    rows.push_back(MatrixNumbers(140, 6, /*are_close=*/true));
    for (float& value : rows.back()) value *= factor;
    expected.emplace_back(1040);
    formats::ref::MultiplyBlocks({spec_, std::nullopt}, columns.view.summed(), rows.back(),
                                 columns.values, expected.back());
  }
  ThreadPool pool(1);
  OnEveryVariant([&] {
    const ProductPanels panels(spec_, columns.view, columns.packed.view(), pool);
    EXPECT_EQ(panels.has_close_units(), spec_.block_size != 1);  // single elements differ more
    for (size_t i = 0; i < rows.size(); ++i) {
      ExpectSameBits(Multiply(panels, std::nullopt, rows[i], 1), expected[i]);
    }
  });
}

// Tiles multiply blocks whose units are not too different.
void CheckProductsInTiles(const FormatSpec& spec, const ColumnsView& view, size_t num_rows) {
  SCOPED_TRACE(spec.name);
  const Columns columns(spec, view, 5, /*are_close=*/true);
  std::vector<FormatSpec> formats{spec};
  for (const char* const other : {"mxint8", "mx9", "bfp16", "mxfp8_e4m3", "bf16"}) {
    const FormatSpec rows = FindFormat(other);
    if (formats::BlockOf(rows) == formats::BlockOf(spec)) formats.push_back(rows);
  }
  const auto num_columns = static_cast<size_t>(view.num_columns());
  const int64_t depth = view.summed().num_elements();
  for (const FormatSpec& format : formats) {
    std::vector<float> a = MatrixNumbers(num_rows * static_cast<size_t>(depth), 6, true);
    std::vector<float> far = a;
    a[a.size() / 2] = std::nanf("");
    for (size_t k = 0; k < static_cast<size_t>(depth); ++k) far[k] *= 0x1p-100F;  // a row
    for (std::vector<float>* const rows : {&a, &far}) {
      formats::ref::FakeQuantize(format, *rows, *rows, static_cast<int64_t>(num_rows), depth, 1);
      std::vector<float> expected(num_rows * num_columns);
      formats::ref::MultiplyBlocks({spec, format}, view.summed(), *rows, columns.values, expected);
      ThreadPool pool(2);
      OnEveryVariant([&] {
        const ProductPanels panels(spec, view, columns.packed.view(), pool);
        ExpectSameBits(Multiply(panels, format, *rows, num_rows), expected);
        const BlockProduct product(panels, format, {rows->data(), num_rows, 0}, {});
        // Parts of floats must be those of tiles.
        const bool is_whole = formats::SumsOf({spec, format}) == formats::ProductSums::kWhole;
        const bool is_usual = is_whole || panels.padded_block() % kTileDepth == 0;
        // Bytes have dot products of their own.
        const bool are_bytes = is_whole && formats::BlockUnitsOf(spec)->largest <= INT8_MAX &&
                               formats::BlockUnitsOf(format)->largest <= INT8_MAX;
        const bool has_target =
            CurrentTarget() == "AMX" || (CurrentTarget() == "AVX3_BF16" && !are_bytes);
        EXPECT_EQ(product.has_tiles(), has_target && panels.has_close_units() && is_usual);
      });
    }
  }
}

TEST_P(BlockProductsInFormat, EqualTheReferenceInTiles) {
  CheckProductsInTiles(spec_, {40, 150, 1, false}, 50);
}

TEST(WholeBlockProducts, EqualTheReferenceInPiecesOfTiles) {
  for (const char* const name : {"mxfp4_e2m1", "mx6", "mxint8", "mx9"}) {
    CheckProductsInTiles(FindFormat(name), {19, 2090, 1, false}, 50);
  }
}

// Products are summed in terms if the fastest order is asked for, tiles are there and terms suit
// the rows; else in the fixed order.
void CheckFastestSums(const FormatSpec& spec, const std::optional<FormatSpec>& format,
                      int64_t depth) {
  SCOPED_TRACE(fmt::format("{} by {}, {}", spec.name, format ? format->name : "floats", depth));
  constexpr size_t kRows = 50, kColumns = 40;
  const Columns columns(spec, {kColumns, depth, 1, false}, 5, /*are_close=*/true);
  const auto of_row = static_cast<size_t>(depth);
  std::vector<float> suitable = MatrixNumbers(kRows * of_row, 6, /*are_close=*/true);
  suitable[0] = 0x1p-60F;  // counts as zero
  std::fill_n(suitable.begin() + static_cast<std::ptrdiff_t>(of_row), of_row, 0.0F);
  std::vector<std::vector<float>> unsuitable;
  for (const float number : {0x1p41F, std::nanf(""), HUGE_VALF, 0x1p-28F}) {
    unsuitable.push_back(suitable);
    unsuitable.back()[of_row + 1] = number;  // the only one of its row
  }
  const auto quantize = [&](std::vector<float>& rows) {
    if (!format) return;
    const auto num_rows = static_cast<int64_t>(rows.size() / of_row);
    formats::ref::FakeQuantize(*format, rows, rows, num_rows, depth, 1);
  };
  quantize(suitable);
  for (std::vector<float>& rows : unsuitable) quantize(rows);
  // Exponents of few bits leave no such numbers.
  std::erase_if(unsuitable, [&](const std::vector<float>& rows) {
    const float number = std::fabs(rows[of_row + 1]);
    return number == 0 || (number >= formats::kLeastRowOfTerms && number < 0x1p40F);
  });
  std::vector<float> in_terms(kRows * kColumns);
  formats::ref::MultiplyInTerms(of_row, suitable, columns.values, in_terms);
  const auto in_order = [&](const std::vector<float>& rows) {
    std::vector<float> c(rows.size() / of_row * kColumns);
    formats::ref::MultiplyBlocks({spec, format}, columns.view.summed(), rows, columns.values, c);
    return c;
  };
  ThreadPool pool(2);
  OnEveryVariant([&] {
    const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
    const auto multiply = [&](const std::vector<float>& rows) {
      return Multiply(panels, format, rows, rows.size() / of_row, {}, SumOrder::kFastest);
    };
    const bool has_terms =
        CurrentTarget() == "AMX" && formats::HasTerms(spec) && panels.has_close_units();
    ExpectSameBits(multiply(suitable), has_terms ? in_terms : in_order(suitable));
    const std::vector<float> few(suitable.begin(),
                                 suitable.begin() + static_cast<std::ptrdiff_t>(15 * of_row));
    ExpectSameBits(multiply(few), in_order(few));
    for (const std::vector<float>& rows : unsuitable)
      ExpectSameBits(multiply(rows), in_order(rows));
  });
}

TEST_P(BlockProductsInFormat, EqualTheReferenceInTheFastestOrder) {
  std::vector<std::optional<FormatSpec>> formats{std::nullopt};
  for (const FormatSpec& format : {spec_, FindFormat("mx9")}) {
    const ProductFormats both{spec_, format};
    const bool is_whole = formats::SumsOf(both) == formats::ProductSums::kWhole;
    if (is_whole && formats::WhyNoProduct(both).empty()) formats.emplace_back(format);
  }
  for (const auto& format : formats) {
    for (const int64_t depth : {80, 1072}) {  // odd numbers of blocks of 16; several pieces
      CheckFastestSums(spec_, format, depth);
    }
  }
}

#if defined(__x86_64__)
// This is what a thread's tiles are, as ONNX Runtime sets it once for each of its threads.
struct alignas(64) TileConfiguration {
  uint8_t bytes[64] = {};
  bool operator==(const TileConfiguration&) const = default;
};
__attribute__((target("amx-tile"))) TileConfiguration ReadTiles() {
  TileConfiguration tiles;
  asm volatile("sttilecfg %0" : "=m"(tiles));
  return tiles;
}
__attribute__((target("amx-tile"))) void SetTiles(const TileConfiguration& tiles) {
  asm volatile("ldtilecfg %0" : : "m"(tiles));
}
__attribute__((target("amx-tile"))) void ReleaseTiles() { asm volatile("tilerelease"); }

TEST(BlockProducts, LeaveTheTilesOfAThreadAsTheyWere) {
  if (SupportedTargets().front() != "AMX") GTEST_SKIP() << "no tiles here";
  const FormatSpec spec = FindFormat("mxint8");
  const Columns columns(spec, {5, 64, 1, false}, 5, /*are_close=*/true);
  ThreadPool pool(1);
  const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
  const std::vector<float> a = MatrixNumbers(size_t{48} * 64, 6, true);
  TileConfiguration others;
  others.bytes[0] = 1;
  for (size_t tile = 0; tile < 8; ++tile) {
    others.bytes[16 + 2 * tile] = 64;
    others.bytes[48 + tile] = 16;
  }
  SetTiles(others);
  Multiply(panels, spec, a, 48);
  EXPECT_EQ(ReadTiles(), others);
  ReleaseTiles();
  Multiply(panels, spec, a, 48);
  EXPECT_EQ(ReadTiles(), TileConfiguration()) << "none, so that the system need not save them";
}
#endif

void CheckTilesOfTheCache(const char* name) {
  const FormatSpec spec = FindFormat(name);
  CheckProducts(spec, {80, 1600, 1, false}, {{spec, 70}, {std::nullopt, 70}}, 3);
}

TEST(BlockProducts, EqualTheReferenceInTilesOfTheCache) { CheckTilesOfTheCache("mx6"); }
TEST(WholeBlockProducts, EqualTheReferenceInTilesOfTheCache) {
  for (const char* const name : {"mxfp4_e2m1", "mxint8", "mx9", "mxfp8_e4m3"}) {
    CheckTilesOfTheCache(name);
  }
}

TEST(BlockProducts, EqualTheReferenceWithHugeUnits) {
  for (const char* const name : {"mxint8", "mx6", "mx9"}) {
    const FormatSpec spec = FindFormat(name);
    const ColumnsView view{18, 64, 1, false};
    Columns columns(spec, view, 5);
    std::vector<float> huge = columns.values;
    for (float& value : huge) value *= 1e22F;
    formats::ref::FakeQuantize(spec, huge, huge, 18, 64, 1);
    ThreadPool pool(1);
    PackTensor(spec, 18, 64, 1, huge, columns.packed.spans(), pool);
    const std::vector<float> a = Rows(spec, view.summed(), 4, 6);
    std::vector<float> expected(size_t{4} * 18);
    formats::ref::MultiplyBlocks({spec, spec}, view.summed(), a, huge, expected);
    OnEveryVariant([&] {
      const ProductPanels panels(spec, view, columns.packed.view(), pool);
      EXPECT_TRUE(panels.has_large_unit());
      ExpectSameBits(Multiply(panels, spec, a, 4), expected);
    });
  }
}

TEST(BlockProducts, EmptyMatrices) {
  const FormatSpec spec = FindFormat("mx6");
  CheckProducts(spec, {5, 32, 1, false}, {{spec, 0}});
  CheckProducts(spec, {0, 32, 1, false}, {{spec, 2}});
  const Columns columns(spec, {5, 0, 1, false}, 1);
  ThreadPool pool(1);
  OnEveryVariant([&] {
    const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
    EXPECT_THAT(Multiply(panels, spec, {}, 2), testing::Each(0.0F));
  });
}

TEST(BlockProducts, AddABiasAndLimits) {
  const FormatSpec spec = FindFormat("mxint8");
  const Columns columns(spec, {21, 64, 1, false}, 2);
  ThreadPool pool(1);
  const std::vector<float> a = Rows(spec, columns.view.summed(), 2, 3), bias = MatrixNumbers(21, 4);
  ProductOutput output;
  output.bias = bias.data();
  output.least = -0.5F;
  output.largest = 1.5F;
  OnEveryVariant([&] {
    const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
    std::vector<float> expected = Multiply(panels, spec, a, 2);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = std::clamp(expected[i] + bias[i % 21], -0.5F, 1.5F);
    }
    ExpectSameBits(Multiply(panels, spec, a, 2, output), expected);
  });
}

TEST(BlockProducts, DoNotDependOnTheOtherRows) {
  const FormatSpec spec = FindFormat("mx6");
  const Columns columns(spec, {90, 700, 1, false}, 2);
  ThreadPool pool(1);
  const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
  for (const std::optional<FormatSpec>& rows : {std::optional(spec), std::optional<FormatSpec>()}) {
    const std::vector<float> a = Rows(rows, columns.view.summed(), 150, 3);
    const std::vector<float> together = Multiply(panels, rows, a, 150);
    for (const size_t i : {0U, 77U, 149U}) {
      const std::vector<float> alone(a.begin() + static_cast<std::ptrdiff_t>(i * 700),
                                     a.begin() + static_cast<std::ptrdiff_t>((i + 1) * 700));
      const auto row = together.begin() + static_cast<std::ptrdiff_t>(i * 90);
      ExpectSameBits(Multiply(panels, rows, alone, 1), std::vector<float>(row, row + 90));
    }
  }
}

TEST(BlockProducts, FormatsThatHaveNone) {
  const FormatSpec mx6 = FindFormat("mx6"), mxint8 = FindFormat("mxint8");
  EXPECT_THAT(formats::WhyNoProduct({FindFormat("fp16"), std::nullopt}),
              testing::HasSubstr("no blocks"));
  EXPECT_THAT(formats::WhyNoProduct({FindFormat("bfp(bits=20,block=32)"), std::nullopt}),
              testing::HasSubstr("more than 9 bits"));
  EXPECT_THAT(formats::WhyNoProduct({mx6, mxint8}), testing::HasSubstr("blocks of 32 and of 16"));
  EXPECT_EQ(formats::WhyNoProduct({mx6, FindFormat("mxfp8_e4m3")}), "") << "rows of floats";
}

TEST(ProductPanels, TakeAboutTheBytesOfTheCodes) {
  ThreadPool pool(1);
  for (const auto& [name, bits] :
       std::vector<std::pair<const char*, double>>{{"mxfp4_e2m1", 4.25},
                                                   {"mx4", 4.5},
                                                   {"mx6", 6.5},
                                                   {"mxint8", 8.25},
                                                   {"mx9", 9},
                                                   {"bfp16", 9},
                                                   {"mxfp6_e2m3", 8.25},
                                                   {"mxfp8_e5m2", 8.25},
                                                   {"mxfp6_e3m2", 8.25}}) {
    const FormatSpec spec = FindFormat(name);
    const Columns columns(spec, {64, 256, 1, false}, 2);
    const ProductPanels panels(spec, columns.view, columns.packed.view(), pool);
    EXPECT_EQ(8.0 * static_cast<double>(panels.num_bytes()), bits * 64 * 256) << name;
  }
}

TEST(ProductPanels, PartsOfWrongSizesAreRefused) {
  const FormatSpec spec = FindFormat("mx6");
  const Columns columns(spec, {4, 32, 1, false}, 2);
  ThreadPool pool(1);
  EXPECT_THROW(ProductPanels(spec, {4, 48, 1, false}, columns.packed.view(), pool), Error);
}

}  // namespace
}  // namespace bitpress::kernels
