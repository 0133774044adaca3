#include "formats/test_oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace bitpress::formats::oracle {
namespace {

// Returns the finite values of the block as the format sees them. Specials count as absent.
std::vector<long double> FiniteValues(const FormatSpec& spec, std::span<const float> x) {
  std::vector<long double> values(x.size(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    if (IsSpecial(x[i])) continue;
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu;
    if (spec.flush_subnormals && magnitude < 0x00800000u) continue;
    values[i] = static_cast<long double>(x[i]);
  }
  return values;
}

long double LargestMagnitude(std::span<const long double> values) {
  long double largest = 0;
  for (const long double v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

int Limited(const FormatSpec& spec, int exponent) {
  if (!spec.limit_shared_exponent) return exponent;
  // Biased codes 0 .. 2^n - 2, bias 2^(n - 1) - 1; the last code is NaN (OCP MX 1.0 section 5.4.1).
  int largest = 1;
  for (int i = 1; i < spec.scale_bits; ++i) largest *= 2;
  largest -= 1;
  while (exponent < -largest) ++exponent;
  while (exponent > largest) --exponent;
  return exponent;
}

int SmallestExponent(const FormatSpec& spec) {
  FormatSpec limited = spec;
  limited.limit_shared_exponent = true;
  return Limited(limited, -100000);
}

// Returns the shared exponent of a largest magnitude by floor, ceil or even, before the limit.
// amax > 0.
int Wanted(const FormatSpec& spec, ScaleChoice choice, long double amax) {
  const long double top = TableOf(spec).largest();
  const int emax = ExponentOf(top);
  if (choice == ScaleChoice::kCeil) {
    int exponent = ExponentOf(amax) - emax - 3;
    while (amax > top * PowerOfTwo(exponent)) ++exponent;
    return exponent;
  }
  if (choice == ScaleChoice::kEven) {
    // The step of the element's mantissa in the binade of amax is that of its top binade. Values at
    // most half such a step below the next power of two round up to it.
    const ElementTable& table = TableOf(spec);
    const int k = ExponentOf(amax);
    const long double step =
        (table.largest() - table.value(table.count() - 2)) * PowerOfTwo(k - emax);
    return (amax >= PowerOfTwo(k + 1) - step / 2 ? k + 1 : k) - emax;
  }
  return ExponentOf(amax) - emax;
}

// A sub-block lowers the shared exponent as far as its own largest magnitude allows.
int ShiftOf(const FormatSpec& spec, int exponent, long double sub_amax) {
  int most = 1;
  for (int i = 0; i < spec.sub_block_shift_bits; ++i) most *= 2;
  most -= 1;
  const ScaleChoice choice =
      spec.scale_choice == ScaleChoice::kMse ? ScaleChoice::kFloor : spec.scale_choice;
  int shift = 0;
  while (shift < most && Wanted(spec, choice, sub_amax) <= exponent - shift - 1) ++shift;
  return shift;
}

std::vector<std::optional<int>> ShiftsOf(const FormatSpec& spec,
                                         std::span<const long double> values, int exponent) {
  std::vector<std::optional<int>> shifts;
  if (spec.sub_block_size == 0) return shifts;
  const size_t size = static_cast<size_t>(spec.sub_block_size);
  for (size_t begin = 0; begin < values.size(); begin += size) {
    const long double amax =
        LargestMagnitude(values.subspan(begin, std::min(size, values.size() - begin)));
    shifts.push_back(amax == 0 ? std::optional<int>() : ShiftOf(spec, exponent, amax));
  }
  return shifts;
}

int EffectiveExponent(const FormatSpec& spec, int exponent,
                      std::span<const std::optional<int>> shifts, size_t i) {
  if (shifts.empty()) return exponent;
  return exponent - shifts[i / static_cast<size_t>(spec.sub_block_size)].value_or(0);
}

// No finite code means infinity: values beyond float32 become its largest one.
float SaturatedFloat(long double value) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (value > static_cast<long double>(kLargest)) return kLargest;
  if (value < -static_cast<long double>(kLargest)) return -kLargest;
  return NearestFloat(value);
}

bool ZeroIsNegative(const FormatSpec& spec, float x) {
  if (spec.zero_rule == ZeroRule::kPositive) return false;
  if (spec.zero_rule == ZeroRule::kKeepSign) return IsNegative(x);
  return std::bit_cast<uint32_t>(x) == 0x80000000u;
}

// Returns the differences of the dequantized from the finite values; 0 for the others.
std::vector<long double> Errors(const FormatSpec& spec, std::span<const float> x, int exponent) {
  const Block block = Quantize(spec, x, exponent);
  std::vector<long double> errors;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double y = block.fake_quantized[i];
    errors.push_back(IsSpecial(x[i]) ? 0 : y - static_cast<long double>(x[i]));
  }
  return errors;
}

}  // namespace

long double SquaredError(const FormatSpec& spec, std::span<const float> x, int exponent) {
  long double sum = 0;
  for (const long double error : Errors(spec, x, exponent)) sum += error * error;
  return sum;
}

int ChooseExponent(const FormatSpec& spec, std::span<const float> x) {
  const std::vector<long double> values = FiniteValues(spec, x);
  const long double amax = LargestMagnitude(values);
  if (amax == 0) return SmallestExponent(spec);
  if (spec.scale_choice != ScaleChoice::kMse) {
    return Limited(spec, Wanted(spec, spec.scale_choice, amax));
  }
  // The contract wants errors in units of the floor choice's scale, and squares and sums in
  // float32.
  const int floor = Wanted(spec, ScaleChoice::kFloor, amax);
  int best = 0;
  long double least = std::numeric_limits<long double>::infinity();
  for (int exponent = floor - 1; exponent <= floor + 1; ++exponent) {
    const int limited = Limited(spec, exponent);
    long double sum = 0;
    for (const long double error : Errors(spec, x, limited)) {
      const long double scaled = NearestFloat(error / PowerOfTwo(floor));
      sum = NearestFloat(sum + NearestFloat(scaled * scaled));
    }
    if (sum < least) {
      least = sum;
      best = limited;
    }
  }
  return best;
}

Block Quantize(const FormatSpec& spec, std::span<const float> x, std::optional<int> exponent) {
  const ElementTable& table = TableOf(spec);
  const std::vector<long double> values = FiniteValues(spec, x);
  Block block;
  block.shared_exponent = exponent ? *exponent : ChooseExponent(spec, x);
  block.shifts = ShiftsOf(spec, values, block.shared_exponent);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  bool fake_is_nan = false;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double scale =
        PowerOfTwo(EffectiveExponent(spec, block.shared_exponent, block.shifts, i));
    if (IsSpecial(x[i])) {
      const bool is_nan = IsNanBits(x[i]);
      if (spec.special_rule == SpecialRule::kNanBlock) fake_is_nan = true;
      // E5M2 has codes of infinity and NaN, E4M3 one of NaN. Other specials make the block NaN.
      const bool has_infinity = spec.element_type == ElementType::kFloat8E5M2;
      const bool has_nan = has_infinity || spec.element_type == ElementType::kFloat8E4M3;
      if (is_nan ? !has_nan : !has_infinity) block.is_nan = true;
      block.codes.push_back(is_nan ? 0x7Fu : (IsNegative(x[i]) ? 0xFCu : 0x7Cu));
      block.dequantized.push_back(x[i]);
      block.fake_quantized.push_back(x[i]);
      continue;
    }
    const int64_t index = table.Nearest(values[i] / scale, spec.rounding);
    const long double value = table.value(index) * scale;
    if (value == 0) {
      const bool negative = ZeroIsNegative(spec, x[i]);
      block.codes.push_back(negative ? table.negative_zero() : table.code(index));
      const bool kept = negative && block.codes.back() != table.code(index);
      block.dequantized.push_back(kept ? -0.0f : 0.0f);
      block.fake_quantized.push_back(negative ? -0.0f : 0.0f);
    } else {
      block.codes.push_back(table.code(index));
      block.dequantized.push_back(SaturatedFloat(value));
      block.fake_quantized.push_back(block.dequantized.back());
    }
  }
  if (fake_is_nan) block.is_nan = true;
  if (block.is_nan) block.dequantized.assign(x.size(), nan);
  if (fake_is_nan) block.fake_quantized.assign(x.size(), nan);
  return block;
}

std::vector<float> FakeQuantize(const FormatSpec& spec, std::span<const float> x, int64_t outer,
                                int64_t axis_length, int64_t inner) {
  std::vector<float> y(x.size());
  const auto at = [&](int64_t o, int64_t a, int64_t i) {
    return static_cast<size_t>((o * axis_length + a) * inner + i);
  };
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t begin = 0; begin < axis_length; begin += spec.block_size) {
        std::vector<float> block;
        for (int64_t a = begin; a < std::min<int64_t>(axis_length, begin + spec.block_size); ++a) {
          block.push_back(x[at(o, a, i)]);
        }
        const Block result = Quantize(spec, block);
        for (size_t k = 0; k < block.size(); ++k) {
          y[at(o, begin + static_cast<int64_t>(k), i)] = result.fake_quantized[k];
        }
      }
    }
  }
  return y;
}

}  // namespace bitpress::formats::oracle
