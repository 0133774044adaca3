// The block formats against the oracle, bit for bit: every format, scale choice and rule, over all
// exponents of float32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/quark.h"
#include "formats/reference.h"
#include "formats/test_block_cases.h"
#include "formats/test_oracle.h"

namespace bitpress::formats {
namespace {

using testing_cases::BlockCases;
using testing_cases::kInfinity;
using testing_cases::SameBits;

std::string Describe(const FormatSpec& spec, const std::vector<float>& x) {
  std::string text = fmt::format("{} {} {} zero {} special {} limit {}: [", spec.name,
                                 ScaleChoiceName(spec.scale_choice),
                                 RoundingModeName(spec.rounding), static_cast<int>(spec.zero_rule),
                                 static_cast<int>(spec.special_rule), spec.limit_shared_exponent);
  for (const float value : x) text += fmt::format("{:a} ", value);
  return text + "]";
}

// Returns the first difference between reference and oracle on this block, or "" if there is none.
std::string Difference(const FormatSpec& spec, const std::vector<float>& x) {
  const oracle::Block expected = oracle::Quantize(spec, x);
  const ref::BlockCodes actual = ref::QuantizeBlock(spec, x);
  if (actual.is_nan != expected.is_nan) return fmt::format("is_nan {}", actual.is_nan);
  // A block that flushing made zero may keep any exponent.
  bool is_zero = true;
  for (const float value : expected.dequantized) is_zero = is_zero && value == 0;
  if (!expected.is_nan && !(is_zero && spec.flush_subnormals)) {
    const double scale = std::ldexp(1.0, expected.shared_exponent);
    if (actual.scale != scale) {
      return fmt::format("scale {}, expected {}", actual.scale, scale);
    }
    if (ref::ChooseScale(spec, x) != scale) return "chosen scale";
  }
  if (actual.codes.size() != x.size() || actual.shifts.size() != expected.shifts.size()) {
    return "sizes";
  }
  for (size_t i = 0; i < actual.shifts.size() && !expected.is_nan; ++i) {
    if (expected.shifts[i] && actual.shifts[i] != *expected.shifts[i]) {
      return fmt::format("shift {} is {}, expected {}", i, actual.shifts[i], *expected.shifts[i]);
    }
  }
  std::vector<float> dequantized(x.size());
  std::vector<float> fake(x);
  ref::DequantizeBlock(spec, actual, dequantized);
  ref::FakeQuantizeBlock(spec, fake, fake);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!SameBits(fake[i], expected.fake_quantized[i])) {
      return fmt::format("fake quantized {} is {:a}, expected {:a}", i, fake[i],
                         expected.fake_quantized[i]);
    }
    if (!SameBits(dequantized[i], expected.dequantized[i])) {
      return fmt::format("dequantized {} is {:a}, expected {:a}", i, dequantized[i],
                         expected.dequantized[i]);
    }
    if (!expected.is_nan && IsFinite(x[i]) && actual.codes[i] != expected.codes[i]) {
      return fmt::format("code {} is {}, expected {}", i, actual.codes[i], expected.codes[i]);
    }
  }
  return "";
}

// Counts differences and shows the first few.
class Checker {
 public:
  void Check(const FormatSpec& spec, const std::vector<float>& x) {
    ++checked_;
    const std::string difference = Difference(spec, x);
    if (difference.empty() || ++failed_ > 3) return;
    ADD_FAILURE() << difference << "\n  " << Describe(spec, x);
  }
  ~Checker() {
    EXPECT_EQ(failed_, 0) << "of " << checked_ << " blocks";
    EXPECT_GT(checked_, 0);
  }
  Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

 private:
  int64_t checked_ = 0;
  int64_t failed_ = 0;
};

size_t LengthOf(const FormatSpec& spec, BlockCases& cases) {
  const uint32_t size = static_cast<uint32_t>(spec.block_size);
  return cases.Random(4) == 0 ? 1 + cases.Random(size) : size;
}

class BlockFormats : public testing::TestWithParam<size_t> {
 protected:
  FormatSpec Spec() const { return testing_cases::TestedFormats()[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(All, BlockFormats,
                         testing::Range<size_t>(0, testing_cases::TestedFormats().size()),
                         [](const auto& row) {
                           std::string name;
                           const std::string words = testing_cases::TestedFormats()[row.param].name;
                           for (const char c : words) {
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

// Tries every third or ninth edge of an exponent, others each time.
void ExpectTheOracle(FormatSpec spec, uint32_t seed, int step, size_t edge_step) {
  for (const ScaleChoice choice : testing_cases::ScaleChoices()) {
    SCOPED_TRACE(ScaleChoiceName(choice));
    spec.scale_choice = choice;
    BlockCases cases(spec, seed);
    Checker checker;
    size_t first = 0;
    for (const int exponent : testing_cases::Exponents(step)) {
      const std::vector<float> edges = cases.Edges(exponent);
      for (size_t i = first++ % edge_step; i < edges.size(); i += edge_step) {
        checker.Check(spec, cases.Fill(edges[i], LengthOf(spec, cases)));
      }
    }
  }
}

TEST_P(BlockFormats, ScaleChoicesEqualTheOracle) { ExpectTheOracle(Spec(), 10, 25, 9); }

TEST_P(BlockFormats, WholeRangeOfExponentsEqualsTheOracle) { ExpectTheOracle(Spec(), 11, 1, 3); }

// Tests all combinations of the rules, on fewer exponents.
TEST_P(BlockFormats, EveryRuleEqualsTheOracle) {
  const bool is_float = Spec().has_float_elements();
  FormatSpec spec = Spec();
  BlockCases cases(spec, 12);
  Checker checker;
  for (const RoundingMode rounding :
       {RoundingMode::kHalfToEven, RoundingMode::kHalfAwayFromZero, RoundingMode::kHalfUp}) {
    if (is_float && rounding != RoundingMode::kHalfToEven) continue;
    spec.rounding = rounding;
    for (const ScaleChoice choice : testing_cases::ScaleChoices()) {
      spec.scale_choice = choice;
      for (const ZeroRule zero :
           {ZeroRule::kKeepSign, ZeroRule::kPositive, ZeroRule::kQuarkNearest}) {
        spec.zero_rule = zero;
        for (const SpecialRule special : {SpecialRule::kPass, SpecialRule::kNanBlock}) {
          spec.special_rule = special;
          for (const bool limit : {true, false}) {
            // Block floating point reads the exponent field, and so its exponents are limited.
            if (!limit && spec.is_block_float()) continue;
            spec.limit_shared_exponent = limit;
            for (const int exponent : {-149, -127, -126, -60, 0, 90, 127}) {
              const auto edges = cases.Edges(exponent);
              const float amax = edges[cases.Random(static_cast<uint32_t>(edges.size()))];
              std::vector<float> x = cases.Fill(amax, LengthOf(spec, cases));
              x[cases.Random(static_cast<uint32_t>(x.size()))] =
                  cases.Random(2) ? -0.0f : 0x1p-149f;
              checker.Check(spec, x);
              const float specials[] = {kInfinity, -kInfinity, std::nanf(""), -std::nanf("")};
              x[cases.Random(static_cast<uint32_t>(x.size()))] = specials[cases.Random(4)];
              checker.Check(spec, x);
            }
          }
        }
      }
    }
  }
}

TEST_P(BlockFormats, ZeroAndSpecialBlocksEqualTheOracle) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ScaleChoice choice : testing_cases::ScaleChoices()) {
    FormatSpec spec = Spec();
    spec.scale_choice = choice;
    Checker checker;
    for (const float first : {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.FFFFFCp-127f, 0x1p-126f, 1.0f,
                              testing_cases::kLargestFloat, -testing_cases::kLargestFloat,
                              kInfinity, -kInfinity, nan}) {
      for (const float rest : {0.0f, -0.0f, 0x1p-149f, kInfinity, nan}) {
        for (const int length : {1, 2, spec.block_size - 1, spec.block_size}) {
          if (length < 1 || length > spec.block_size) continue;
          // Lengths do not depend on the choice of the scale.
          if (choice != ScaleChoice::kFloor && length != spec.block_size) continue;
          std::vector<float> x(static_cast<size_t>(length), rest);
          x.front() = first;
          checker.Check(spec, x);
          std::swap(x.front(), x.back());
          checker.Check(spec, x);
        }
      }
    }
  }
}

// Returns a block with that value beside powers of two that keep its exponents. It is empty if the
// block has no room or float32 no such values.
std::vector<float> BlockAround(const FormatSpec& spec, long double element, int exponent,
                               int shift) {
  const int emax = RangeOf(spec).max_exponent;
  const size_t place = static_cast<size_t>(spec.sub_block_size > 0 ? spec.sub_block_size : 1);
  std::vector<float> x(static_cast<size_t>(spec.block_size), 0.0f);
  if (x.size() <= place) return {};
  x[0] = oracle::NearestFloat(oracle::PowerOfTwo(exponent + emax));
  x[place] = oracle::NearestFloat(element * oracle::PowerOfTwo(exponent - shift));
  if (spec.sub_block_size > 1)
    x[place + 1] = oracle::NearestFloat(oracle::PowerOfTwo(exponent - shift));
  for (const float value : x) {
    if (!IsFinite(value) || (spec.flush_subnormals && IsSubnormal(value))) return {};
  }
  return x;
}

// The value of every code, at every shift, comes back unchanged. Of codes of more than 8 bits some
// hundred are tried.
TEST_P(BlockFormats, ValuesOfAllCodesSurviveQuantization) {
  const FormatSpec spec = Spec();
  const BlockRange range = RangeOf(spec);
  const oracle::ElementTable& table = oracle::TableOf(spec);
  const int max_shift = spec.sub_block_size > 0 ? (1 << spec.sub_block_shift_bits) - 1 : 0;
  const int64_t step = table.count() <= 256 ? 1 : table.count() / 255;
  int64_t checked = 0;
  for (const int wanted : testing_cases::Exponents(5)) {
    const int exponent = std::clamp(wanted, range.min_shared_exponent, range.max_shared_exponent);
    for (int shift = 0; shift <= max_shift; ++shift) {
      for (int64_t index = 0; index < table.count(); index += step) {
        const std::vector<float> x = BlockAround(spec, table.value(index), exponent, shift);
        if (x.empty()) continue;
        std::vector<float> y(x.size());
        ref::DequantizeBlock(spec, ref::QuantizeBlock(spec, x), y);
        ASSERT_EQ(y, x) << exponent << " - " << shift << ", element " << index;
        ++checked;
      }
    }
  }
  EXPECT_TRUE(checked > 40 * (table.count() / step) || spec.block_size == 1) << checked;
}

TEST(Tensors, BlocksRunAlongTheMiddleDimension) {
  for (const char* name : {"mxfp4_e2m1", "mx6", "bfp16", "mxint8", "bfp(bits=13, block=7)"}) {
    const FormatSpec spec = FindFormat(name);
    BlockCases cases(spec, 13);
    for (const int64_t axis : {1, 7, 8, 31, 33, 70}) {
      for (const int64_t inner : {1, 3}) {
        const int64_t outer = 2;
        const std::vector<float> x = cases.Fill(3.7f, static_cast<size_t>(outer * axis * inner));
        const std::vector<float> expected = oracle::FakeQuantize(spec, x, outer, axis, inner);
        std::vector<float> y(x.size());
        ref::FakeQuantize(spec, x, y, outer, axis, inner);
        std::vector<float> in_place = x;
        ref::FakeQuantize(spec, in_place, in_place, outer, axis, inner);
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(FloatBits(y[i]), FloatBits(expected[i])) << name << " " << axis << " " << i;
          ASSERT_EQ(FloatBits(in_place[i]), FloatBits(expected[i])) << name << " " << axis;
        }
      }
    }
  }
  std::vector<float> empty;
  ref::FakeQuantize(FindFormat("mx6"), empty, empty, 0, 16, 3);
  ref::FakeQuantize(FindFormat("mx6"), empty, empty, 2, 0, 3);
}

// The specs that Quark's attributes mean are combinations of the same rules.
TEST(QuarkSpecs, EqualTheOracleOverAllExponents) {
  std::vector<FormatSpec> specs;
  for (const char* dtype : {"fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"}) {
    for (const int64_t mode : {0, 1, 2}) {
      specs.push_back(QuarkSpec(QuarkMxAttributes{dtype, 16, mode}));
    }
  }
  for (const char* method : {"to_bfp", "to_bfp_prime"}) {
    for (const int64_t bit_width : {11, 13, 16, 24}) {
      for (const int64_t mode : {0, 1, 2}) {
        specs.push_back(QuarkSpec(QuarkBfpAttributes{method, bit_width, 16, mode}));
      }
    }
  }
  Checker checker;
  for (const FormatSpec& spec : specs) {
    BlockCases cases(spec, 14);
    for (int exponent = -149; exponent <= 127; exponent += 3) {
      const auto edges = cases.Edges(exponent);
      for (size_t i = 0; i < edges.size(); i += 4) {
        checker.Check(spec, cases.Fill(edges[i], LengthOf(spec, cases)));
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::formats
