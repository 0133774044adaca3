#include "base/exact_sum.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace bitpress {
namespace {

constexpr int kMantissaBits = 23;  // bits of the mantissa of a float

using Words = std::array<uint64_t, ExactSum::kNumWords>;

// Adds carry * 2^(64 * first) to the words.
void Propagate(Words& words, size_t first, bool carry) {
  for (size_t i = first; carry && i < words.size(); ++i) carry = ++words[i] == 0;
}

void Negate(Words& words) {
  for (uint64_t& word : words) word = ~word;
  Propagate(words, 0, true);
}

// The significand and the exponent of a float: x = significand * 2^exponent.
struct Parts {
  uint32_t significand;
  int exponent;
};

Parts Split(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto field = static_cast<int>(bits >> kMantissaBits & 0xFFu);
  BITPRESS_DCHECK(field != 0xFF);
  const uint32_t mantissa = bits & ((1u << kMantissaBits) - 1);
  if (field == 0) return {mantissa, -149};
  return {mantissa | 1u << kMantissaBits, field - 150};
}

}  // namespace

void ExactSum::Add(float x) {
  const Parts parts = Split(x);
  AddScaled(parts.significand, parts.exponent, std::signbit(x));
}

void ExactSum::AddSquare(float x) {
  const Parts parts = Split(x);
  AddScaled(uint64_t{parts.significand} * parts.significand, 2 * parts.exponent, false);
}

void ExactSum::AddDouble(double x) {
  BITPRESS_DCHECK(std::fabs(x) < kTooLargeDouble);
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);  // 0, or from 1/2 to 1
  auto magnitude = static_cast<uint64_t>(std::ldexp(fraction, 53));
  exponent -= 53;
  if (exponent < kLowestExponent) {
    const int num_lost = kLowestExponent - exponent;
    magnitude = num_lost < 64 ? magnitude >> num_lost : 0;
    exponent = kLowestExponent;
  }
  if (magnitude != 0) AddScaled(magnitude, exponent, std::signbit(x));
}

void ExactSum::AddScaled(UInt128 magnitude, int exponent, bool is_negative) {
  BITPRESS_DCHECK(exponent >= kLowestExponent);
  const auto shift = static_cast<size_t>(exponent - kLowestExponent);
  const size_t first = shift / 64;
  const size_t bit = shift % 64;
  BITPRESS_DCHECK(first < kNumWords);
  const auto low = static_cast<uint64_t>(magnitude);
  const auto high = static_cast<uint64_t>(magnitude >> 64);
  const std::array<uint64_t, 3> parts = {low << bit,
                                         bit == 0 ? high : (high << bit | low >> (64 - bit)),
                                         bit == 0 ? 0 : high >> (64 - bit)};
  // Two's complement: subtracting is adding the complement and one.
  bool carry = is_negative;
  for (size_t i = first; i < kNumWords; ++i) {
    const uint64_t part = i - first < parts.size() ? parts[i - first] : 0;
    const UInt128 sum = UInt128{words_[i]} + (is_negative ? ~part : part) + (carry ? 1u : 0u);
    words_[i] = static_cast<uint64_t>(sum);
    carry = (sum >> 64) != 0;
    if (i - first >= parts.size() && carry == is_negative) break;  // nothing changes above
  }
}

void ExactSum::Add(const ExactSum& other) {
  bool carry = false;
  for (size_t i = 0; i < kNumWords; ++i) {
    const UInt128 sum = UInt128{words_[i]} + other.words_[i] + (carry ? 1u : 0u);
    words_[i] = static_cast<uint64_t>(sum);
    carry = (sum >> 64) != 0;
  }
}

double ExactSum::Round() const {
  Words words = words_;
  const bool is_negative = (words.back() >> 63) != 0;
  if (is_negative) Negate(words);
  size_t top = kNumWords;
  while (top > 0 && words[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The highest 64 significant bits; the lowest of them also stands for everything below, which
  // makes the rounding to 53 bits right.
  const auto leading = static_cast<size_t>(std::countl_zero(words[top - 1]));
  uint64_t head = words[top - 1] << leading;
  bool rest = false;
  if (top >= 2) {
    if (leading > 0) head |= words[top - 2] >> (64 - leading);
    rest = (words[top - 2] << leading) != 0;
    for (size_t i = 0; i + 2 < top; ++i) rest = rest || words[i] != 0;
  }
  const int exponent =
      kLowestExponent + static_cast<int>(64 * (top - 1)) - static_cast<int>(leading);
  const double magnitude = std::ldexp(static_cast<double>(head | (rest ? 1u : 0u)), exponent);
  return is_negative ? -magnitude : magnitude;
}

ExactSum ExactSum::FromWords(std::span<const uint64_t, kNumWords> words) {
  ExactSum sum;
  for (size_t i = 0; i < kNumWords; ++i) sum.words_[i] = words[i];
  return sum;
}

}  // namespace bitpress
