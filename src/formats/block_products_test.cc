#include "formats/block_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "formats/block_units.h"
#include "formats/float_bits.h"
#include "formats/packed_tensor.h"
#include "formats/reference.h"

namespace bitpress::formats {
namespace {

std::vector<FormatSpec> FormatsWithUnits() {
  std::vector<FormatSpec> specs;
  for (const FormatSpec& row : AllFormats()) {
    if (BlockUnitsOf(row)) specs.push_back(row);
  }
  return specs;
}

double UnitOf(uint8_t unit) { return std::ldexp(1.0, unit - kUnitBias); }

// Every code of a format, at the top of a block and below it, is an element times the unit.
TEST(BlockUnits, EveryValueIsAnElementTimesTheUnit) {
  for (const FormatSpec& spec : FormatsWithUnits()) {
    SCOPED_TRACE(spec.name);
    const BlockUnits units = *BlockUnitsOf(spec);
    if (units.is_one) continue;  // it has no table
    const std::vector<float> table = ElementTable(spec);
    std::vector<float> sorted;
    for (const float value : table) {
      if (IsFinite(value)) sorted.push_back(value);
    }
    for (const int exponent : {-80, -3, 0, 90}) {
      for (const float top : sorted) {
        std::vector<float> block{std::ldexp(top, exponent)};
        for (const float value : sorted) {
          // Others of the block are not larger, but two's complement reaches a step further down.
          if (std::fabs(value) <= std::fabs(top)) block.push_back(std::ldexp(value, exponent));
        }
        const ref::UnitBlock taken = ref::TakeApart(units, block);
        for (size_t i = 0; i < block.size(); ++i) {
          const float element = taken.elements[i];
          EXPECT_EQ(element * UnitOf(taken.unit), ToDouble(block[i]));
          if (!units.is_whole()) continue;
          EXPECT_EQ(element, std::nearbyint(element));
          EXPECT_LE(element, static_cast<float>(units.largest));
          EXPECT_GE(element, static_cast<float>(units.least()));
        }
      }
    }
  }
}

TEST(BlockUnits, AreOneInBf16) {
  const FormatSpec bf16 = FindFormat("bf16");
  const BlockUnits units = *BlockUnitsOf(bf16);
  EXPECT_TRUE(units.is_one);
  EXPECT_FALSE(units.is_whole());
  EXPECT_EQ(BlockOf(bf16), 32);
  EXPECT_EQ(BlockOf(FindFormat("mx6")), 16);
  const std::vector<float> values{0, -1.5F, 0x1p-133F, 0x1.FEp127F, HUGE_VALF};
  const ref::UnitBlock taken = ref::TakeApart(units, values);
  EXPECT_EQ(UnitOf(taken.unit), 1);
  EXPECT_EQ(taken.elements, values);
  EXPECT_FALSE(BlockUnitsOf(FindFormat("fp16")));
  EXPECT_FALSE(BlockUnitsOf(FindFormat("fp8_e4m3")));
}

TEST(BlockUnits, FollowFromQuantizedValues) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const FormatSpec& spec : FormatsWithUnits()) {
    const BlockUnits units = *BlockUnitsOf(spec);
    for (int round = 0; round < 200; ++round) {
      std::vector<float> block(static_cast<size_t>(spec.block_size));
      for (float& value : block) value = std::ldexp(normal(random), round % 40 - 20);
      ref::FakeQuantizeBlock(spec, block, block);
      const ref::UnitBlock taken = ref::TakeApart(units, block);
      for (size_t i = 0; i < block.size(); ++i) {
        ASSERT_EQ(taken.elements[i] * UnitOf(taken.unit), ToDouble(block[i])) << spec.name;
        if (!units.is_whole()) continue;
        ASSERT_LE(std::fabs(taken.elements[i]), 256) << spec.name;
      }
    }
  }
}

TEST(BlockUnits, ZerosTinyNumbersAndNan) {
  const BlockUnits units = *BlockUnitsOf(FindFormat("mxint8"));
  const float tiny = 0x1p-130F;
  for (const std::vector<float>& block : {std::vector<float>{0, -0.0F}, {tiny, -tiny}}) {
    const ref::UnitBlock taken = ref::TakeApart(units, block);
    EXPECT_EQ(taken.unit, kUnitBias);
    EXPECT_THAT(taken.elements, testing::Each(0.0F));
  }
  for (const float special : {std::nanf(""), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
    const ref::UnitBlock taken = ref::TakeApart(units, std::vector<float>{1, special});
    EXPECT_EQ(taken.unit, kNanUnit);
    EXPECT_THAT(taken.elements, testing::Each(0.0F));
  }
  // -128 is a number of 8 bits, and 128 is none.
  EXPECT_THAT(ref::TakeApart(units, std::vector<float>{-2, 1 / 64.0F}).elements,
              testing::ElementsAre(-128, 1));
  EXPECT_THAT(ref::TakeApart(units, std::vector<float>{2, 1 / 32.0F}).elements,
              testing::ElementsAre(64, 1));
}

TEST(BlockUnits, FormatsWithoutThem) {
  for (const char* const name : {"fp16", "fp8_e4m3", "int8", "bfp(bits=20,block=32)"}) {
    EXPECT_FALSE(BlockUnitsOf(FindFormat(name))) << name;
  }
}

// Where all sums are exact, the order does not matter.
TEST(MultiplyBlocks, EqualsTheProductOfTheValues) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> number(-3, 3);
  for (const FormatSpec& spec : FormatsWithUnits()) {
    for (const bool has_rows : {true, false}) {
      ProductFormats formats{spec, std::nullopt};
      if (has_rows) formats.rows = spec;
      ASSERT_EQ(WhyNoProduct(formats), "");
      const SummedShape summed{2, 45};
      constexpr size_t kRows = 3, kColumns = 4, kDepth = 90;
      std::vector<float> a(kRows * kDepth), b(kColumns * kDepth), c(kRows * kColumns);
      for (float& value : a) value = static_cast<float>(number(random));
      for (float& value : b) value = static_cast<float>(number(random));
      ref::FakeQuantize(spec, a, a, 2 * kRows, 45, 1);
      ref::FakeQuantize(spec, b, b, 2 * kColumns, 45, 1);
      ref::MultiplyBlocks(formats, summed, a, b, c);
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) {
          double sum = 0;
          for (size_t k = 0; k < kDepth; ++k) sum += double{a[i * kDepth + k]} * b[j * kDepth + k];
          EXPECT_EQ(c[i * kColumns + j], sum) << spec.name;
        }
      }
    }
  }
}

TEST(MultiplyBlocks, NanOfARowOrAColumnGoesThrough) {
  const FormatSpec spec = FindFormat("mx6");
  std::vector<float> a(64, 1.0F), b(64, 1.0F), c(4);
  a[40] = std::nanf("");  // of the second row
  ref::MultiplyBlocks({spec, spec}, {1, 32}, a, b, c);
  EXPECT_EQ(c[0], 32);
  EXPECT_TRUE(std::isnan(c[2]) && std::isnan(c[3]));
  a[40] = 0;
  b[3] = std::nanf("");  // of the first column
  ref::MultiplyBlocks({spec, spec}, {1, 32}, a, b, c);
  EXPECT_TRUE(std::isnan(c[0]) && std::isnan(c[2]));
  EXPECT_EQ(c[1], 32);
}

TEST(Terms, AreExactInBfloat16AndAddUpToTheNumber) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const float value = FloatFromBits(static_cast<uint32_t>(random()));
    if (!IsFinite(value)) continue;
    double sum = 0;
    for (const float term : TermsOf(value)) {
      EXPECT_EQ(FloatBits(term) & 0xFFFF, 0U);
      EXPECT_TRUE(term == 0 || std::fabs(term) >= 0x1p-80F) << term;
      sum += term;
    }
    EXPECT_EQ(sum, std::fabs(value) < kLeastOfTerms ? 0 : ToDouble(value));
  }
}

// Sums in terms are nearer to the exact ones than chains are.
TEST(Terms, RoundLessThanChains) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const FormatSpec spec = FindFormat("mxint8");
  constexpr int64_t kDepth = 1024;
  std::vector<float> a(20 * kDepth), b(20 * kDepth);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  ref::FakeQuantize(spec, b, b, 20, kDepth, 1);
  std::vector<float> chain(400), terms(400);
  ref::MultiplyBlocks({spec, std::nullopt}, {1, kDepth}, a, b, chain);
  ref::MultiplyInTerms(kDepth, a, b, terms);
  double of_chains = 0, of_terms = 0;
  for (size_t i = 0; i < 400; ++i) {
    double exact = 0;
    for (size_t k = 0; k < kDepth; ++k) {
      exact += double{a[i / 20 * kDepth + k]} * double{b[i % 20 * kDepth + k]};
    }
    of_chains += std::pow(chain[i] - exact, 2);
    of_terms += std::pow(terms[i] - exact, 2);
  }
  EXPECT_LT(of_terms, 0.5 * of_chains);
  EXPECT_GT(of_terms, 0);
}

}  // namespace
}  // namespace bitpress::formats
