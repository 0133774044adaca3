#include "formats/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "formats/block_scale.h"
#include "formats/float_bits.h"

namespace bitpress::formats::ref {
namespace {

double LargestFinite(std::span<const float> block) {
  double amax = 0;
  for (const float x : block) {
    if (IsFinite(x)) amax = std::max(amax, std::fabs(ToDouble(x)));
  }
  return amax;
}

double DecodeElement(const FormatSpec& spec, uint32_t code, double scale) {
  const int step_bits = spec.has_float_elements() ? 0 : spec.element_bits - 2;
  return ElementOf(spec, code) * std::ldexp(scale, -step_bits);
}

double FlushIfAsked(const FormatSpec& spec, float x) {
  if (spec.flush_subnormals && IsSubnormal(x))
    return std::copysign(0.0, FloatBits(x) & kFloatSignBit ? -1.0 : 1.0);
  return ToDouble(x);
}

// Returns the value of a code as float32. Only float32's range may be too small for it: 4 * 2^126
// in MXFP4 with ceil, -128/64 * 2^127 in MXINT8. Finite codes stay finite.
float SaturateToFloat(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return std::isfinite(x) ? RoundToFloat(std::clamp(x, -kLargest, kLargest)) : RoundToFloat(x);
}

// Returns whether a value that becomes zero has a minus sign.
bool ZeroIsNegative(const FormatSpec& spec, float x) {
  const bool is_negative = (FloatBits(x) & kFloatSignBit) != 0;
  switch (spec.zero_rule) {
    case ZeroRule::kKeepSign:
      return is_negative;
    case ZeroRule::kPositive:
      return false;
    case ZeroRule::kQuarkNearest:
      return FloatBits(x) == kFloatSignBit;
  }
  return is_negative;
}

float ApplyZeroRule(const FormatSpec& spec, float y, float x) {
  if ((FloatBits(y) & ~kFloatSignBit) != 0) return y;
  return ZeroIsNegative(spec, x) ? -0.0f : 0.0f;
}

// Returns the code of -0, or 0 if the element type has none.
uint32_t NegativeZeroCode(const FormatSpec& spec) {
  return spec.kind() == ElementKind::kTwosComplement ? 0u : 1u << (spec.element_bits - 1);
}

// Returns the largest shift that the sub-block's own largest magnitude allows under the same
// choice. Only blocks whose scales are powers of two have sub-blocks.
int SubBlockShift(const FormatSpec& spec, std::span<const float> sub_block, double scale) {
  const int max_shift = (1 << spec.sub_block_shift_bits) - 1;
  const double amax = LargestFinite(sub_block);
  if (amax == 0) return max_shift;
  return std::clamp(FloorLog2(scale) - WantedExponent(spec, amax), 0, max_shift);
}

// Encodes a block at a scale that is chosen already.
BlockCodes EncodeAt(const FormatSpec& spec, std::span<const float> x, double scale) {
  BlockCodes block;
  block.scale = scale;
  const uint32_t negative_zero = NegativeZeroCode(spec);
  const size_t sub = spec.sub_block_size > 0 ? static_cast<size_t>(spec.sub_block_size) : x.size();
  for (size_t begin = 0; begin < x.size(); begin += sub) {
    const auto part = x.subspan(begin, std::min(sub, x.size() - begin));
    const int shift = spec.sub_block_size > 0 ? SubBlockShift(spec, part, scale) : 0;
    if (spec.sub_block_size > 0) block.shifts.push_back(shift);
    for (const float value : part) {
      const double v = IsFinite(value) ? FlushIfAsked(spec, value) : 0.0;
      const uint32_t code = EncodeElement(spec, v, std::ldexp(scale, -shift));
      const bool lose_sign = code == negative_zero && !ZeroIsNegative(spec, value);
      block.codes.push_back(lose_sign ? 0u : code);
    }
  }
  return block;
}

// Returns the squared error of a block at a scale. The sum is float32 and in order, because the
// kernels that must make the same choice do so.
float SquaredError(const FormatSpec& spec, std::span<const float> block, double scale,
                   double error_unit) {
  const BlockCodes codes = EncodeAt(spec, block, scale);
  std::vector<float> decoded(block.size());
  DequantizeBlock(spec, codes, decoded);
  float sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    if (!IsFinite(block[i])) continue;
    const double difference = ToDouble(decoded[i]) - ToDouble(block[i]);
    const float error = RoundToFloat(difference / error_unit);
    sum += error * error;
  }
  return sum;
}

}  // namespace

uint32_t EncodeFloat(double x, ElementType type) {
  const FloatLayout layout = LayoutOf(type);
  BITPRESS_DCHECK(layout.has_nan || !std::isnan(x));
  const int sign_shift = layout.exponent_bits + layout.mantissa_bits;
  const uint32_t sign = std::signbit(x) ? 1u << sign_shift : 0u;
  const uint32_t all_ones = (1u << sign_shift) - 1;
  if (std::isnan(x)) {
    // IEEE types take the quiet NaN, E4M3FN its only NaN, E5M2 all ones, as Cast does in ONNX and
    // ml_dtypes.
    return sign | (layout.exponent_bits + layout.mantissa_bits > 8
                       ? all_ones ^ ((1u << (layout.mantissa_bits - 1)) - 1)
                       : all_ones);
  }
  if (std::isinf(x)) {
    if (layout.has_infinity)
      return sign | (((1u << layout.exponent_bits) - 1) << layout.mantissa_bits);
    return sign | all_ones;
  }
  const double magnitude = std::fabs(x);
  // 1. The step between neighbours at this magnitude: subnormals share the step of the smallest
  // normal exponent, values beyond the range that of the largest.
  const int min_exponent = 1 - layout.bias;
  const int exponent = magnitude == 0
                           ? min_exponent
                           : std::clamp(FloorLog2(magnitude), min_exponent, layout.max_exponent);
  const int step_exponent = exponent - layout.mantissa_bits;
  // 2. Round to a multiple of the step, ties to even, and saturate.
  const double rounded =
      std::min(std::ldexp(std::nearbyint(std::ldexp(magnitude, -step_exponent)), step_exponent),
               layout.max_value);
  // 3. Add the fields. Codes of a sign count up with the magnitude in steps of one, so this holds
  // even if rounding carried into the next exponent.
  const double mantissa = std::ldexp(rounded, -step_exponent);  // 0 .. 2^(mantissa_bits + 1)
  const uint32_t field = static_cast<uint32_t>(exponent - min_exponent) << layout.mantissa_bits;
  return sign | (field + static_cast<uint32_t>(mantissa));
}

double DecodeFloat(uint32_t code, ElementType type) {
  const FloatLayout layout = LayoutOf(type);
  const uint32_t exponent_mask = (1u << layout.exponent_bits) - 1;
  const uint32_t mantissa_mask = (1u << layout.mantissa_bits) - 1;
  const uint32_t exponent = (code >> layout.mantissa_bits) & exponent_mask;
  const uint32_t mantissa = code & mantissa_mask;
  const bool negative = ((code >> (layout.exponent_bits + layout.mantissa_bits)) & 1u) != 0;
  double magnitude;
  if (layout.has_infinity && exponent == exponent_mask) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (layout.has_nan && !layout.has_infinity && exponent == exponent_mask &&
             mantissa == mantissa_mask) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - layout.bias - layout.mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa + mantissa_mask + 1,
                           static_cast<int>(exponent) - layout.bias - layout.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

double RoundToInteger(double x, RoundingMode mode) {
  switch (mode) {
    case RoundingMode::kHalfToEven:
      return std::nearbyint(x);
    case RoundingMode::kHalfAwayFromZero:
      return std::round(x);
    case RoundingMode::kHalfUp: {
      // floor(x + 0.5) without the rounding of that sum: x - floor(x) is exact.
      const double below = std::floor(x);
      return x - below >= 0.5 ? below + 1 : below;
    }
  }
  return x;
}

int64_t QuantizeInteger(float x, float scale, int64_t zero_point, CodeRange range,
                        RoundingMode mode) {
  if (IsNan(x)) return zero_point;
  // Double has more than twice as many bits as float32, so that rounding its quotient gives the
  // float32 quotient. That may be anything up to infinity; beyond 2^40 every code saturates.
  const float rounded = RoundToFloat(ToDouble(x) / ToDouble(scale));
  const double quotient = std::clamp(ToDouble(rounded), -0x1p40, 0x1p40);
  const int64_t code = static_cast<int64_t>(RoundToInteger(quotient, mode)) + zero_point;
  return std::clamp(code, range.quant_min, range.quant_max);
}

float DequantizeInteger(int64_t code, float scale, int64_t zero_point) {
  // The product of two float32 is exact in double.
  return RoundToFloat(static_cast<double>(static_cast<float>(code - zero_point)) * ToDouble(scale));
}

double ElementOf(const FormatSpec& spec, uint32_t code) {
  if (spec.has_float_elements()) return DecodeFloat(code, spec.element_type);
  const uint32_t sign = 1u << (spec.element_bits - 1);
  if (!spec.is_block_float()) {
    return static_cast<double>(static_cast<int32_t>(code ^ sign) - static_cast<int32_t>(sign));
  }
  const double magnitude = static_cast<double>(code & (sign - 1));
  return code & sign ? -magnitude : magnitude;
}

uint32_t EncodeElement(const FormatSpec& spec, double x, double scale) {
  if (spec.has_float_elements()) return EncodeFloat(x / scale, spec.element_type);
  const int step_bits = spec.element_bits - 2;
  const double steps = RoundToInteger(std::ldexp(x / scale, step_bits), spec.rounding);
  const double top = std::ldexp(1.0, spec.element_bits - 1);
  if (spec.is_block_float()) {
    const uint32_t magnitude = static_cast<uint32_t>(std::min(std::fabs(steps), top - 1));
    return magnitude | (std::signbit(x) ? 1u << (spec.element_bits - 1) : 0u);
  }
  const int32_t code = static_cast<int32_t>(std::clamp(steps, -top, top - 1));
  return static_cast<uint32_t>(code) & ((1u << spec.element_bits) - 1);
}

double ChooseScale(const FormatSpec& spec, std::span<const float> block) {
  const double amax = LargestFinite(block);
  if (amax == 0) return LeastScale(spec);
  const ScaleCandidates candidates = CandidateScales(spec, amax);
  if (candidates.scales.size() == 1) return candidates.scales.front();
  double best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (const double scale : candidates.scales) {
    const float error = SquaredError(spec, block, scale, candidates.error_unit);
    if (best == 0 || error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

BlockCodes QuantizeBlock(const FormatSpec& spec, std::span<const float> x) {
  BITPRESS_DCHECK(spec.is_blocked() && x.size() <= static_cast<size_t>(spec.block_size));
  BlockCodes block = EncodeAt(spec, x, ChooseScale(spec, x));
  for (size_t i = 0; i < x.size(); ++i) {
    if (IsFinite(x[i])) continue;
    const FloatLayout& layout = TraitsOf(spec.element_type).layout;
    const bool has_code = IsNan(x[i]) ? layout.has_nan : layout.has_infinity;
    if (has_code && spec.special_rule == SpecialRule::kPass) {
      block.codes[i] = EncodeFloat(static_cast<double>(x[i]), spec.element_type);
    } else {
      block.is_nan = true;
    }
  }
  return block;
}

void DequantizeBlock(const FormatSpec& spec, const BlockCodes& block, std::span<float> y) {
  BITPRESS_DCHECK(y.size() == block.codes.size());
  for (size_t i = 0; i < block.codes.size(); ++i) {
    const int shift =
        block.shifts.empty() ? 0 : block.shifts[i / static_cast<size_t>(spec.sub_block_size)];
    y[i] =
        block.is_nan
            ? std::numeric_limits<float>::quiet_NaN()
            : SaturateToFloat(DecodeElement(spec, block.codes[i], std::ldexp(block.scale, -shift)));
  }
}

uint32_t ScaleCode(const FormatSpec& spec, const BlockCodes& block) {
  return block.is_nan ? NanScaleCode(spec) : EncodeScale(spec, block.scale);
}

void FakeQuantizeBlock(const FormatSpec& spec, std::span<const float> x, std::span<float> y) {
  BITPRESS_DCHECK(x.size() == y.size());
  if (!spec.is_blocked()) {
    const FloatLayout layout = LayoutOf(spec.element_type);
    for (size_t i = 0; i < x.size(); ++i) {
      if (IsFinite(x[i])) {
        y[i] = RoundToFloat(
            DecodeFloat(EncodeFloat(ToDouble(x[i]), spec.element_type), spec.element_type));
      } else if (!IsNan(x[i]) && spec.special_rule == SpecialRule::kSaturate) {
        y[i] = static_cast<float>(std::copysign(layout.max_value, x[i]));
      } else {
        y[i] = x[i];
      }
    }
    return;
  }
  const bool has_special = std::any_of(x.begin(), x.end(), [](float v) { return !IsFinite(v); });
  if (has_special && spec.special_rule == SpecialRule::kNanBlock) {
    std::fill(y.begin(), y.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const BlockCodes block = EncodeAt(spec, x, ChooseScale(spec, x));
  const std::vector<float> original(x.begin(),
                                    x.end());  // x and y may be the same memory
  DequantizeBlock(spec, block, y);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = IsFinite(original[i]) ? ApplyZeroRule(spec, y[i], original[i]) : original[i];
  }
}

void FakeQuantize(const FormatSpec& spec, std::span<const float> x, std::span<float> y,
                  int64_t outer, int64_t axis_length, int64_t inner) {
  BITPRESS_DCHECK(x.size() == y.size());
  BITPRESS_DCHECK(outer >= 0 && axis_length >= 0 && inner >= 0);
  BITPRESS_DCHECK(x.size() == static_cast<size_t>(outer * axis_length * inner));
  if (!spec.is_blocked()) return FakeQuantizeBlock(spec, x, y);
  std::vector<float> block(static_cast<size_t>(std::min<int64_t>(spec.block_size, axis_length)));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t begin = 0; begin < axis_length; begin += spec.block_size) {
        const int64_t length = std::min<int64_t>(spec.block_size, axis_length - begin);
        const int64_t first = (o * axis_length + begin) * inner + i;
        for (int64_t k = 0; k < length; ++k)
          block[static_cast<size_t>(k)] = x[static_cast<size_t>(first + k * inner)];
        const std::span<float> part(block.data(), static_cast<size_t>(length));
        FakeQuantizeBlock(spec, part, part);
        for (int64_t k = 0; k < length; ++k)
          y[static_cast<size_t>(first + k * inner)] = block[static_cast<size_t>(k)];
      }
    }
  }
}

}  // namespace bitpress::formats::ref
