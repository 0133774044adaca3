#include "base/digit_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/exact_sum.h"

namespace bitpress {
namespace {

// Adds a term to every sum of a group, as the kernel does.
void AddTerm(DigitSums& sums, float x) {
  sums.Raise(PlaceOf(std::fabs(x)));
  const auto digits = DigitsOf(x, sums.place);
  for (size_t d = 0; d < kNumDigits; ++d) {
    for (size_t k = 0; k < sums.size; ++k) sums.digits[d][k] += digits[d];
  }
}

DigitSums SumOf(const std::vector<float>& terms) {
  DigitSums sums;
  sums.size = 2;
  for (const float x : terms) AddTerm(sums, x);
  return sums;
}

// Floats whose exponents are spread over `spread` below `top`.
std::vector<float> Terms(size_t count, int top, int spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> terms;
  for (size_t i = 0; i < count; ++i) {
    const float significand = 1 + static_cast<float>(random() % (1u << 23)) * 0x1p-23F;
    const int exponent = top - static_cast<int>(random() % static_cast<uint32_t>(spread));
    terms.push_back((random() % 2 == 0 ? 1.0F : -1.0F) * std::ldexp(significand, exponent));
  }
  return terms;
}

TEST(DigitSums, DigitsDoNotDependOnThePlaceThatTheyStartFrom) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const float x = std::bit_cast<float>(bits);
    if (!std::isfinite(x)) continue;
    const int least = PlaceOf(std::fabs(x));
    const auto digits = DigitsOf(x, least);
    for (int above = 1; least + above <= kMostPlace && above <= 3; ++above) {
      const auto shifted = DigitsOf(x, least + above);
      for (size_t d = 0; d < kNumDigits; ++d) {
        const auto by = static_cast<size_t>(above);
        ASSERT_EQ(shifted[d], d < by ? 0 : digits[d - by]) << x << ' ' << above;
      }
    }
    // The rest of the term is at most half of the last digit.
    const double kept = ((double{4096} * digits[0] + digits[1]) * 4096 + digits[2]);
    const double unit = std::ldexp(1.0, 12 * (least - 2));
    ASSERT_LE(std::fabs(double{x} - kept * unit), unit / 2);
    for (const int32_t digit : digits) ASSERT_LE(std::abs(digit), 1 << 11);
  }
}

TEST(DigitSums, DigitsAtTheLimitsOfPlaces) {
  for (int place = kLeastPlace; place < kMostPlace; ++place) {
    const float limit = DigitLimit(place);
    const float below = std::nextafter(limit, 0.0F);
    EXPECT_EQ(PlaceOf(below), place);
    EXPECT_EQ(PlaceOf(limit), place + 1);
    // A tie between two digits goes to the even one, from every place on.
    EXPECT_EQ(DigitsOf(limit, place + 1), (std::array<int32_t, 3>{0, 2048, 0}));
    EXPECT_EQ(DigitsOf(below, place)[0], 2048);
    EXPECT_EQ(DigitsOf(-below, place)[0], -2048);
  }
  EXPECT_EQ(PlaceOf(std::numeric_limits<float>::max()), kMostPlace);
  EXPECT_EQ(PlaceOf(0), kLeastPlace);
  EXPECT_EQ(DigitsOf(std::numeric_limits<float>::denorm_min(), kLeastPlace),
            (std::array<int32_t, 3>{0, 0, 0}));
}

TEST(DigitSums, PermutationsOfAFewTermsAreTheSame) {
  // Large and small terms, ties, cancellation, and terms around the limits of places.
  const float limit = DigitLimit(0);
  std::vector<float> terms = {1.5F,   -limit, limit, std::nextafter(limit, 0.0F), 0x1p-13F, 1e30F,
                              -1e30F, 3e-30F, 0.0F};
  std::ranges::sort(terms);
  const DigitSums expected = SumOf(terms);
  size_t count = 0;
  do {
    // Every fifth order, so that the test stays short.
    if (count++ % 5 != 0) continue;
    ASSERT_EQ(SumOf(terms), expected);
  } while (std::next_permutation(terms.begin(), terms.end()));
  EXPECT_GT(count, 100'000u);
}

TEST(DigitSums, SplitsAndMergesAreTheSame) {
  for (const auto& [top, spread] : std::vector<std::pair<int, int>>{
           {0, 1}, {0, 24}, {0, 80}, {127, 250}, {-60, 90}, {127, 2}, {-130, 18}}) {
    std::vector<float> terms = Terms(300, top, spread, 7);
    const DigitSums expected = SumOf(terms);
    std::mt19937 random(3);
    for (int round = 0; round < 60; ++round) {
      std::ranges::shuffle(terms, random);
      // Random parts, added up in random order.
      std::vector<DigitSums> parts;
      for (size_t begin = 0; begin < terms.size();) {
        const size_t end = std::min(terms.size(), begin + 1 + random() % 90);
        parts.push_back(SumOf({terms.begin() + static_cast<std::ptrdiff_t>(begin),
                               terms.begin() + static_cast<std::ptrdiff_t>(end)}));
        begin = end;
      }
      while (parts.size() > 1) {
        const size_t at = random() % (parts.size() - 1);
        parts[at].Add(parts.back());
        parts.pop_back();
      }
      ASSERT_EQ(parts[0], expected);
      ASSERT_EQ(parts[0].Value(1), expected.Value(1));
    }
    // The sum is as near to the exact one as roundings of the terms would be.
    ExactSum exact;
    float largest = 0;
    for (const float x : terms) {
      exact.Add(x);
      largest = std::max(largest, std::fabs(x));
    }
    const double bound = std::ldexp(double{largest}, -24) * 300 + 300 * 0x1p-121;
    EXPECT_LE(std::fabs(expected.Value(0) - exact.Round()), bound);
  }
}

TEST(DigitSums, BytesAreTheSums) {
  for (const size_t size : {size_t{1}, size_t{9}, kDigitGroup}) {
    DigitSums sums;
    sums.size = size;
    std::mt19937_64 random(5);
    sums.place = 3;
    for (size_t d = 0; d < kNumDigits; ++d) {
      for (size_t k = 0; k < size; ++k) {
        sums.digits[d][k] = static_cast<int64_t>(random()) >> (d == 0 ? 20 : d == 1 ? 45 : 57);
      }
    }
    ByteWriter out;
    sums.Write(out);
    const std::string bytes = out.bytes();
    ByteReader in(bytes, "sums");
    EXPECT_EQ(DigitSums::Read(in, size, uint64_t{1} << 40), sums);
    EXPECT_EQ(in.num_left(), 0u);
    for (size_t end = 0; end < bytes.size(); ++end) {
      ByteReader cut(std::string_view(bytes).substr(0, end), "sums");
      EXPECT_THROW(DigitSums::Read(cut, size, uint64_t{1} << 40), Error);
    }
    // Fewer terms cannot give such sums.
    ByteReader few(bytes, "sums");
    EXPECT_THROW(DigitSums::Read(few, size, 2), Error);
  }
  // Widths are the least, so that equal sums have equal bytes.
  const std::string wide("\x00\x1A\x00\x00\x00\x00\x00\x00", 8);  // digits of 1, 0 and 1 bytes
  ByteReader in(wide, "sums");
  EXPECT_THROW(DigitSums::Read(in, 2, 100), Error);
}

}  // namespace
}  // namespace bitpress
