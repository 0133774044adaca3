#include "base/digit_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace bitpress {
namespace {

static_assert(std::endian::native == std::endian::little);  // as digits in files are

constexpr std::array<size_t, 5> kWidths = {0, 1, 2, 4, 8};  // bytes of a digit in files

// Calls `function` with a zero of the type of a width. Does nothing if digits take no bytes.
template <typename Function>
void WithType(size_t width, const Function& function) {
  switch (kWidths[width]) {
    case 1:
      return function(int8_t{});
    case 2:
      return function(int16_t{});
    case 4:
      return function(int32_t{});
    case 8:
      return function(int64_t{});
    default:
      return;
  }
}

// The bits that are used by some digits, which tell the width that they need.
template <typename T>
struct UsedBits {
  using Bits = std::make_unsigned_t<T>;
  Bits any = 0;
  Bits magnitudes = 0;  // bits that differ from the sign

  void Add(T digit) {
    any = static_cast<Bits>(any | static_cast<Bits>(digit));
    magnitudes = static_cast<Bits>(magnitudes | static_cast<Bits>(digit < 0 ? ~digit : digit));
  }
};

// Returns the index of the least width that all digits fit.
size_t WidthOf(std::span<const int64_t> digits) {
  UsedBits<int64_t> used;
  for (const int64_t digit : digits) used.Add(digit);
  if (used.any == 0) return 0;
  size_t width = 1;
  while (width + 1 < kWidths.size() && used.magnitudes >> (8 * kWidths[width] - 1) != 0) ++width;
  return width;
}

// Returns digits of the bytes. A copy has no other names, so that loops over it are vectorized.
template <typename T>
std::array<T, kDigitGroup> Load(const char* bytes, size_t size) {
  std::array<T, kDigitGroup> digits;
  std::memcpy(digits.data(), bytes, size * sizeof(T));
  return digits;
}

template <typename Sum>
void AddDigits(const char* bytes, size_t width, size_t size, Sum* sums) {
  WithType(width, [&](auto zero) {
    const auto digits = Load<decltype(zero)>(bytes, size);
    for (size_t k = 0; k < size; ++k) sums[k] += static_cast<Sum>(digits[k]);
  });
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
    WithType(widths[d], [&](auto zero) {
      using T = decltype(zero);
      std::array<T, kDigitGroup> stored;
      for (size_t k = 0; k < size; ++k) stored[k] = static_cast<T>(digits[d][k]);
      out.bytes().append(reinterpret_cast<const char*>(stored.data()), size * sizeof(T));
    });
  }
}

DigitSums DigitSums::Read(ByteReader& in, size_t size, uint64_t num_terms) {
  const StoredDigits stored(in, size);
  stored.Check(num_terms);
  DigitSums sums;
  sums.size = size;
  sums.place = stored.place();
  for (size_t d = 0; d < kNumDigits; ++d) stored.AddTo(d, sums.digits[d].data());
  return sums;
}

StoredDigits::StoredDigits(ByteReader& in, size_t size) : in_(in), size_(size) {
  BITPRESS_DCHECK(size <= kDigitGroup);
  const std::string_view head = in.Take(2);
  place_ = static_cast<int8_t>(head[0]);
  if (place_ < kLeastPlace || place_ > kMostPlace)
    in.FailDamaged("the place of a sum is out of range");
  size_t word = static_cast<uint8_t>(head[1]);
  size_t num_bytes = 0;
  for (size_t d = kNumDigits; d-- > 0;) {
    digits_[d].width = word % kWidths.size();
    num_bytes += size * kWidths[digits_[d].width];
    word /= kWidths.size();
  }
  if (word != 0) in.FailDamaged("the width of digits is out of range");
  const char* bytes = in.Take(num_bytes).data();
  for (Digits& digits : digits_) {
    digits.bytes = bytes;
    bytes += size * kWidths[digits.width];
  }
}

void StoredDigits::Check(uint64_t num_terms) const {
  const auto most = static_cast<int64_t>(std::min(num_terms, kMostWideTerms) << (kDigitBits - 1));
  for (const Digits& stored : digits_) {
    WithType(stored.width, [&](auto zero) {
      using T = decltype(zero);
      const auto digits = Load<T>(stored.bytes, size_);
      UsedBits<T> used;
      for (size_t k = 0; k < size_; ++k) used.Add(digits[k]);
      // A magnitude is at most the used bits and 1.
      for (size_t k = 0; used.magnitudes >= static_cast<uint64_t>(most) && k < size_; ++k) {
        const int64_t digit = digits[k];
        if (digit < -most || digit > most) in_.FailDamaged("a digit is larger than its terms");
      }
      const bool is_least = sizeof(T) == 1
                                ? used.any != 0
                                : used.magnitudes >> (8 * kWidths[stored.width - 1] - 1) != 0;
      if (!is_least) in_.FailDamaged("digits are wider than they need to be");
    });
  }
}

void StoredDigits::AddTo(size_t d, int32_t* sums) const {
  AddDigits(digits_[d].bytes, digits_[d].width, size_, sums);
}

void StoredDigits::AddTo(size_t d, int64_t* sums) const {
  AddDigits(digits_[d].bytes, digits_[d].width, size_, sums);
}

}  // namespace bitpress
