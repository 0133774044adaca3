#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "formats/test_oracle.h"

namespace bitpress::formats::oracle {
namespace {

// Decodes by the texts: IEEE 754-2019 table 3.5 for binary16, bfloat16 as the top half of
// binary32, OCP OFP8 1.0 table 1 for FP8, OCP MX 1.0 tables 3 to 5 for FP6 and FP4.
enum class Specials { kIeee, kOnlyNanOnTop, kNone };
struct Definition {
  ElementType type;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};
constexpr Definition kDefinitions[] = {
    {ElementType::kFloat16, 5, 10, 15, Specials::kIeee},
    {ElementType::kBFloat16, 8, 7, 127, Specials::kIeee},
    {ElementType::kFloat8E4M3, 4, 3, 7, Specials::kOnlyNanOnTop},
    {ElementType::kFloat8E5M2, 5, 2, 15, Specials::kIeee},
    {ElementType::kFloat6E2M3, 2, 3, 1, Specials::kNone},
    {ElementType::kFloat6E3M2, 3, 2, 3, Specials::kNone},
    {ElementType::kFloat4E2M1, 2, 1, 1, Specials::kNone},
};
constexpr ElementType kFloatTypes[] = {
    ElementType::kFloat16,    ElementType::kBFloat16,   ElementType::kFloat8E4M3,
    ElementType::kFloat8E5M2, ElementType::kFloat6E2M3, ElementType::kFloat6E3M2,
    ElementType::kFloat4E2M1,
};

constexpr size_t kPowers = 1000;

const Definition* Find(ElementType type) {
  for (const Definition& definition : kDefinitions) {
    if (definition.type == type) return &definition;
  }
  return nullptr;
}

const ElementTable& Cached(ElementType type, int bits) {
  static std::map<std::pair<ElementType, int>, ElementTable> tables;
  const std::pair key(type, bits);
  auto found = tables.find(key);
  if (found == tables.end()) found = tables.emplace(key, ElementTable(type, bits)).first;
  return found->second;
}

}  // namespace

bool IsNegative(float x) { return (std::bit_cast<uint32_t>(x) >> 31) != 0; }
bool IsSpecial(float x) { return (std::bit_cast<uint32_t>(x) & 0x7F800000u) == 0x7F800000u; }
bool IsNanBits(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu) > 0x7F800000u; }

// Returns 2^exponent, counted once.
long double PowerOfTwo(int exponent) {
  static const std::vector<long double> powers = [] {
    std::vector<long double> table(2 * kPowers + 1, 1);
    for (size_t i = 1; i <= kPowers; ++i) {
      table[kPowers + i] = table[kPowers + i - 1] * 2;
      table[kPowers - i] = table[kPowers - i + 1] / 2;
    }
    return table;
  }();
  return powers.at(static_cast<size_t>(static_cast<int>(kPowers) + exponent));
}

int ExponentOf(long double a) {
  int k = 0;
  while (PowerOfTwo(k) > a) --k;
  while (PowerOfTwo(k + 1) <= a) ++k;
  return k;
}

ElementTable::ElementTable(ElementType type, int bits) {
  if (Find(type) != nullptr) {
    FillFromCodes(type);
  } else if (type == ElementType::kInt8) {
    step_ = 1.0L / 64;  // OCP MX 1.0 section 5.3.3: the implied scale of INT8 is 2^-6
    lowest_ = -128;
    count_ = 256;
  } else if (type == ElementType::kSignMagnitude) {
    step_ = PowerOfTwo(2 - bits);  // bits - 1 magnitude bits, the first of them worth 1
    const int64_t largest = (int64_t{1} << (bits - 1)) - 1;
    lowest_ = -largest;
    count_ = 2 * largest + 1;
    negative_zero_ = uint32_t{1} << (bits - 1);
  } else {
    throw std::invalid_argument("the oracle has no such block element");
  }
}

void ElementTable::FillFromCodes(ElementType type) {
  negative_zero_ = NumCodes(type) / 2;
  std::map<long double, uint32_t> sorted;
  for (uint32_t code = 0; code < NumCodes(type); ++code) {
    const long double v = Decode(code, type);
    if (std::isfinite(v) && code != negative_zero_) sorted.emplace(v, code);
  }
  for (const auto& [v, code] : sorted) {
    values_.push_back(v);
    codes_.push_back(code);
  }
  count_ = static_cast<int64_t>(values_.size());
}

long double ElementTable::value(int64_t index) const {
  return values_.empty() ? static_cast<long double>(index + lowest_) * step_
                         : values_[static_cast<size_t>(index)];
}

uint32_t ElementTable::code(int64_t index) const {
  if (!codes_.empty()) return codes_[static_cast<size_t>(index)];
  const int64_t integer = index + lowest_;
  if (negative_zero_ == 0) return static_cast<uint32_t>(integer) & 0xFFu;
  return integer < 0 ? negative_zero_ | static_cast<uint32_t>(-integer)
                     : static_cast<uint32_t>(integer);
}

int64_t ElementTable::Nearest(long double t, RoundingMode mode) const {
  if (t <= value(0)) return 0;
  if (t >= largest()) return count_ - 1;
  int64_t low = 0;
  int64_t high = count_ - 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (value(middle) <= t ? low : high) = middle;
  }
  const long double below = t - value(low);
  const long double above = value(high) - t;
  if (below < above) return low;
  if (above < below) return high;
  if (!values_.empty() || mode == RoundingMode::kHalfToEven) return code(low) % 2 == 0 ? low : high;
  if (mode == RoundingMode::kHalfUp) return high;
  return t < 0 ? low : high;
}

const ElementTable& TableOf(const FormatSpec& spec) {
  return Cached(spec.element_type, spec.element_bits);
}

std::span<const ElementType> FloatTypes() { return kFloatTypes; }

uint32_t NumCodes(ElementType type) {
  const Definition* d = Find(type);
  return uint32_t{2} << (d->exponent_bits + d->mantissa_bits);
}

long double Decode(uint32_t code, ElementType type) {
  const Definition& d = *Find(type);
  const uint32_t mantissas = 1u << d.mantissa_bits;
  const uint32_t exponents = 1u << d.exponent_bits;
  const uint32_t mantissa = code % mantissas;
  const uint32_t exponent = code / mantissas % exponents;
  const bool negative = code / mantissas / exponents % 2 == 1;
  long double magnitude = 0;
  const bool top = exponent == exponents - 1;
  if (top && d.specials == Specials::kIeee) {
    magnitude = mantissa == 0 ? std::numeric_limits<long double>::infinity()
                              : std::numeric_limits<long double>::quiet_NaN();
  } else if (top && d.specials == Specials::kOnlyNanOnTop && mantissa == mantissas - 1) {
    magnitude = std::numeric_limits<long double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = static_cast<long double>(mantissa) / mantissas * PowerOfTwo(1 - d.bias);
  } else {
    magnitude = (1 + static_cast<long double>(mantissa) / mantissas) *
                PowerOfTwo(static_cast<int>(exponent) - d.bias);
  }
  return negative ? -magnitude : magnitude;
}

uint32_t EncodeFinite(long double x, ElementType type) {
  const ElementTable& table = Cached(type, 0);
  const int64_t index = table.Nearest(x, RoundingMode::kHalfToEven);
  return table.value(index) == 0 && std::signbit(x) ? table.negative_zero() : table.code(index);
}

float NearestFloat(long double x) {
  const long double magnitude = std::fabs(x);
  // Bit patterns of positive floats rise with the value; 2^128 stands where infinity is.
  const auto value = [](uint32_t bits) {
    return bits == 0x7F800000u ? PowerOfTwo(128)
                               : static_cast<long double>(std::bit_cast<float>(bits));
  };
  uint32_t low = 0;
  uint32_t high = 0x7F800000u;
  // The search starts near the result of the processor's own conversion, if that encloses the
  // value.
  const uint32_t guess = std::bit_cast<uint32_t>(static_cast<float>(magnitude));
  if (guess > 0 && guess < high && value(guess - 1) <= magnitude && magnitude < value(guess + 1)) {
    low = guess - 1;
    high = guess + 1;
  }
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const long double below = magnitude - value(low);
  const long double above = value(high) - magnitude;
  const bool take_low = below < above || (below == above && low % 2 == 0);
  const uint32_t sign = std::signbit(x) ? 0x80000000u : 0u;
  return std::bit_cast<float>((take_low ? low : high) | sign);
}

int64_t QuantizeInteger(float x, float scale, int64_t zero_point, CodeRange range,
                        RoundingMode mode) {
  if (IsNanBits(x)) return zero_point;
  if (IsSpecial(x)) return IsNegative(x) ? range.quant_min : range.quant_max;
  // 64 bits are more than twice 24 plus two, so rounding twice equals rounding once.
  const long double quotient =
      NearestFloat(static_cast<long double>(x) / static_cast<long double>(scale));
  if (quotient > 1e15L) return range.quant_max;
  if (quotient < -1e15L) return range.quant_min;
  // Below 1/4 every rounding mode gives 0; from there on float32 steps are multiples of 2^-25.
  __int128 whole = 0;
  if (std::fabs(quotient) >= 0.25L) {
    const __int128 one = __int128{1} << 25;
    const __int128 units =
        static_cast<__int128>(quotient * static_cast<long double>(int64_t{1} << 25));
    whole = units / one;
    __int128 rest = units % one;
    if (rest < 0) {
      rest += one;
      whole -= 1;
    }
    bool up = rest > one / 2;
    if (rest == one / 2) {
      if (mode == RoundingMode::kHalfUp) up = true;
      if (mode == RoundingMode::kHalfAwayFromZero) up = quotient > 0;
      if (mode == RoundingMode::kHalfToEven) up = whole % 2 != 0;
    }
    if (up) whole += 1;
  }
  const __int128 code = whole + zero_point;
  if (code < range.quant_min) return range.quant_min;
  if (code > range.quant_max) return range.quant_max;
  return static_cast<int64_t>(code);
}

}  // namespace bitpress::formats::oracle
