#include "base/digit_sums.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace bitpress {
namespace {

constexpr std::array<int, 5> kWidths = {0, 1, 2, 4, 8};  // bytes of a digit in files

// Returns the index of the least width that all digits fit.
size_t WidthOf(std::span<const int64_t> digits) {
  uint64_t used = 0;
  for (const int64_t digit : digits) {
    used |= digit < 0 ? ~static_cast<uint64_t>(digit) : static_cast<uint64_t>(digit);
  }
  const bool is_zero = std::ranges::all_of(digits, [](int64_t digit) { return digit == 0; });
  if (is_zero) return 0;
  size_t width = 1;
  while (width + 1 < kWidths.size() && used >> (8 * kWidths[width] - 1) != 0) ++width;
  return width;
}

// Write and read digits as T, little-endian, whole words of 64 bits at a time where there are some.
template <typename T>
void WriteDigits(ByteWriter& out, std::span<const int64_t> digits) {
  std::array<char, kDigitGroup * sizeof(T)> bytes;
  for (size_t k = 0; k < digits.size(); ++k) {
    const auto digit = static_cast<uint64_t>(digits[k]);
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes[k * sizeof(T) + i] = static_cast<char>(digit >> (8 * i) & 0xFFu);
    }
  }
  out.bytes().append(bytes.data(), digits.size() * sizeof(T));
}

template <typename T>
void ReadDigits(ByteReader& in, std::span<int64_t> digits) {
  constexpr size_t kOfWord = sizeof(uint64_t) / sizeof(T);
  size_t k = 0;
  for (; k + kOfWord <= digits.size(); k += kOfWord) {
    const auto word = in.Number<uint64_t>();
    for (size_t i = 0; i < kOfWord; ++i) {
      digits[k + i] = static_cast<T>(word >> (8 * sizeof(T) * i));
    }
  }
  for (; k < digits.size(); ++k) digits[k] = in.Number<T>();
}

}  // namespace

int PlaceOf(float magnitude) {
  int place = kLeastPlace;
  while (!(magnitude < DigitLimit(place))) ++place;
  return place;
}

float DigitScale(int place) { return std::ldexp(1.0F, -kDigitBits * place); }

float DigitLimit(int place) { return std::ldexp(1.0F, kDigitBits * place + kDigitBits - 1); }

std::array<int32_t, kNumDigits> DigitsOf(float x, int place) {
  BITPRESS_DCHECK(std::fabs(x) < DigitLimit(place));
  constexpr float kBase = 1 << kDigitBits;
  std::array<int32_t, kNumDigits> digits;
  float rest = x * DigitScale(place);
  for (int32_t& digit : digits) {
    const float rounded = std::nearbyint(rest);
    digit = static_cast<int32_t>(rounded);
    rest = (rest - rounded) * kBase;  // exact, as it needs no more bits than before
  }
  return digits;
}

void DigitSums::Raise(int to) {
  if (to <= place) return;
  const auto by = static_cast<size_t>(to - place);
  for (size_t i = kNumDigits; i-- > 0;) {
    digits[i] = i >= by ? digits[i - by] : std::array<int64_t, kDigitGroup>{};
  }
  place = to;
}

void DigitSums::Add(const DigitSums& other) {
  BITPRESS_DCHECK(size == other.size);
  Raise(other.place);
  const auto by = static_cast<size_t>(place - other.place);
  for (size_t i = by; i < kNumDigits; ++i) {
    for (size_t k = 0; k < size; ++k) digits[i][k] += other.digits[i - by][k];
  }
}

double DigitSums::Value(size_t i) const {
  double sum = 0;
  for (const auto& of_place : digits) {
    sum = sum * (1 << kDigitBits) + static_cast<double>(of_place[i]);
  }
  return std::ldexp(sum, kDigitBits * (place - static_cast<int>(kNumDigits) + 1));
}

void DigitSums::Write(ByteWriter& out) const {
  std::array<size_t, kNumDigits> widths;
  uint8_t word = 0;
  for (size_t d = 0; d < kNumDigits; ++d) {
    widths[d] = WidthOf(std::span(digits[d]).first(size));
    word = static_cast<uint8_t>(word * kWidths.size() + widths[d]);
  }
  out.Number(static_cast<int8_t>(place));
  out.Number(word);
  for (size_t d = 0; d < kNumDigits; ++d) {
    const auto of_place = std::span(digits[d]).first(size);
    switch (kWidths[widths[d]]) {
      case 1:
        WriteDigits<int8_t>(out, of_place);
        break;
      case 2:
        WriteDigits<int16_t>(out, of_place);
        break;
      case 4:
        WriteDigits<int32_t>(out, of_place);
        break;
      case 8:
        WriteDigits<int64_t>(out, of_place);
        break;
      default:  // all are 0
        break;
    }
  }
}

DigitSums DigitSums::Read(ByteReader& in, size_t size, uint64_t num_terms) {
  DigitSums sums;
  sums.size = size;
  sums.place = in.Number<int8_t>();
  if (sums.place < kLeastPlace || sums.place > kMostPlace) {
    in.FailDamaged("a sum has no place");
  }
  auto word = in.Number<uint8_t>();
  std::array<size_t, kNumDigits> widths;
  for (size_t d = kNumDigits; d-- > 0;) {
    widths[d] = word % kWidths.size();
    word = static_cast<uint8_t>(word / kWidths.size());
  }
  if (word != 0) in.FailDamaged("digits have no width");
  const auto most = static_cast<int64_t>(std::min(num_terms, kMostWideTerms) << 11);
  for (size_t d = 0; d < kNumDigits; ++d) {
    const auto of_place = std::span(sums.digits[d]).first(size);
    switch (kWidths[widths[d]]) {
      case 1:
        ReadDigits<int8_t>(in, of_place);
        break;
      case 2:
        ReadDigits<int16_t>(in, of_place);
        break;
      case 4:
        ReadDigits<int32_t>(in, of_place);
        break;
      case 8:
        ReadDigits<int64_t>(in, of_place);
        break;
      default:  // all are 0
        break;
    }
    for (const int64_t digit : of_place) {
      if (digit < -most || digit > most) in.FailDamaged("a digit is larger than its terms");
    }
    if (WidthOf(of_place) != widths[d]) {
      in.FailDamaged("digits are wider than they need to be");
    }
  }
  return sums;
}

}  // namespace bitpress
