// The arithmetic of blocks on the device, in a subset of C++ that the host's compiler takes, too.
// It equals formats/reference.h bit for bit.
//
// Blocks whose largest magnitude lies in the middle of float32's range are rounded in float32, as
// kernels/rounding-inl.h does: adding and subtracting a power of two rounds to multiples of its
// unit. All other blocks (NaN, infinity, ends of the range) are computed in double, operation for
// operation as the reference. No operation may be fused or flush subnormals: tests read the
// compiled code.
#pragma once

#include "cuda/kernel_args.h"

#if defined(__CUDA__)
#define BITPRESS_MEMBER __attribute__((device)) inline __attribute__((always_inline))
#define BITPRESS_DEVICE static BITPRESS_MEMBER
#else
#define BITPRESS_DEVICE [[maybe_unused]] static inline
#endif

namespace bitpress::cuda {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kMagnitudeBits = 0x7FFFFFFFu;
constexpr uint32_t kExponentBits = 0x7F800000u;
constexpr uint32_t kMantissaBits = 0x007FFFFFu;
constexpr uint32_t kOneExponent = 1u << 23;
constexpr uint32_t kQuietNan = 0x7FC00000u;

BITPRESS_DEVICE uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
BITPRESS_DEVICE float Float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
BITPRESS_DEVICE uint32_t Larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
BITPRESS_DEVICE uint32_t Smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
BITPRESS_DEVICE int Limited(int x, int least, int most) {
  return x < least ? least : x > most ? most : x;
}

// --- Blocks in the middle of the range
// -----------------------------------------------------------------------------------------------------

// Returns whether a thread treats a block with this largest magnitude alone. All-zero blocks are
// not among them.
BITPRESS_DEVICE bool IsSpecial(const BlockFormat& f, uint32_t amax) {
  return amax != 0 && amax - f.least_amax >= f.amax_range;
}

BITPRESS_DEVICE uint32_t LimitField(const BlockFormat& f, uint32_t exponent) {
  return Smaller(Larger(exponent, f.least_exponent), f.largest_exponent);
}
BITPRESS_DEVICE uint32_t WantedField(const BlockFormat& f, uint32_t amax) {
  const uint32_t raise = (amax & kMantissaBits) > f.exponent_threshold ? kOneExponent : 0u;
  return (amax & kExponentBits) + raise;
}

// Returns numbers of at least 0 rounded to multiples of their last mantissa bit, ties to even, of
// which `magic_offset` says how many there are. Those below the power of two `least` are multiples
// of its step.
BITPRESS_DEVICE float RoundMantissa(float x, uint32_t least, uint32_t magic_offset) {
  const float magic = Float((Larger(Bits(x), least) & kExponentBits) + magic_offset);
  return (x + magic) - magic;
}
// Returns the bits of the E4M3 number that gives a largest magnitude the largest element.
BITPRESS_DEVICE uint32_t FloatScale(const BlockFormat& f, uint32_t amax) {
  constexpr uint32_t kLeastNormal = (127u - 6) << 23;
  constexpr uint32_t kMagic = (23u - 3) << 23;  // for 3 mantissa bits
  const float wanted = __builtin_fminf(Float(amax) / f.max_value, 448.0f);
  return Bits(__builtin_fmaxf(RoundMantissa(wanted, kLeastNormal, kMagic), 0x1p-9f));
}

// Returns the exponent of the largest value of a block, and that of a sub-block in such a block.
BITPRESS_DEVICE uint32_t BlockField(const BlockFormat& f, uint32_t amax) {
  return LimitField(f, WantedField(f, amax));
}
BITPRESS_DEVICE uint32_t SubBlockField(const BlockFormat& f, uint32_t block, uint32_t sub_amax) {
  return Smaller(Larger(WantedField(f, sub_amax), block - f.max_shift_field), block);
}

// The numbers of a block whose exponent or scale is known.
struct Grid {
  uint32_t least;  // float elements: the field of the smallest normal number
  float magic, limit, limit_negative, step, half_step;
};

template <int kWay>
BITPRESS_DEVICE Grid GridOf(const BlockFormat& f, uint32_t exponent) {
  Grid grid = {};
  if (kWay == kFloatScale) {
    grid.step = Float(exponent);
    grid.limit = f.max_value;
    grid.least = kOneExponent * 127 + f.emax_offset - f.subnormal_offset;
    return grid;
  }
  grid.limit = Float(exponent | f.limit_mantissa);
  if (kWay == kFloats || kWay == kFloatsPositive) {
    grid.least = exponent - f.subnormal_offset;
    return grid;
  }
  const uint32_t magic = exponent + f.magic_offset;
  grid.magic = Float(kWay == kQuickIntegers ? magic | kOneExponent / 2 : magic);
  grid.limit_negative = -Float(exponent + kOneExponent);
  if (kWay == kOther) {
    grid.least = exponent - f.subnormal_offset;
    grid.step = Float(magic - (23u << 23));
    grid.half_step = Float(magic - (24u << 23));
  }
  return grid;
}

// Rounds a magnitude to a float element.
BITPRESS_DEVICE float RoundToElement(const BlockFormat& f, const Grid& grid, uint32_t magnitude) {
  return __builtin_fminf(RoundMantissa(Float(magnitude), grid.least, f.magic_offset), grid.limit);
}

// Turns ties to even into half away from zero, or half up, which is towards zero for negative
// values.
BITPRESS_DEVICE float FixTies(const BlockFormat& f, const Grid& grid, float a, float rounded,
                              uint32_t sign) {
  if (f.rounding == kHalfUp && sign != 0) {
    return rounded - a == grid.half_step ? rounded - grid.step : rounded;
  }
  return a - rounded == grid.half_step ? rounded + grid.step : rounded;
}

BITPRESS_DEVICE float RoundOther(const BlockFormat& f, const Grid& grid, float x) {
  const uint32_t bits = Bits(x), sign = bits & kSignBit, magnitude = bits & kMagnitudeBits;
  const float a = Float(magnitude);
  float rounded;
  if (f.element == kFloatElement) {
    rounded = RoundToElement(f, grid, magnitude);
  } else {
    rounded = (a + grid.magic) - grid.magic;
    if (f.rounding != kHalfToEven) rounded = FixTies(f, grid, a, rounded, sign);
    const bool reaches_down = f.element == kTwosComplement && sign != 0;
    rounded = __builtin_fminf(rounded, reaches_down ? -grid.limit_negative : grid.limit);
  }
  if (f.zero == kQuarkNearest && magnitude == 0) return x;
  return Float(Bits(rounded) | (f.zero != kKeepSign && rounded == 0.0f ? 0u : sign));
}

// Rounds a value of a block.
template <int kWay>
BITPRESS_DEVICE float Round(const BlockFormat& f, const Grid& grid, float x) {
  if (kWay == kOther) return RoundOther(f, grid, x);
  if (kWay == kQuickIntegers) {
    const float rounded = (x + grid.magic) - grid.magic;
    return __builtin_fmaxf(__builtin_fminf(rounded, grid.limit), grid.limit_negative);
  }
  const uint32_t sign = Bits(x) & kSignBit, magnitude = Bits(x) & kMagnitudeBits;
  if (kWay == kFloatScale) {
    // Ties times scales are float32 numbers, so that no other quotient is rounded to a tie.
    const float quotient = __builtin_fminf(Float(magnitude) / grid.step, grid.limit);
    return Float(Bits(RoundMantissa(quotient, grid.least, f.magic_offset) * grid.step) | sign);
  }
  if (kWay == kMagnitudes) {
    const float rounded = (Float(magnitude) + grid.magic) - grid.magic;
    return Float(Bits(__builtin_fminf(rounded, grid.limit)) | sign);
  }
  const float y = Float(Bits(RoundToElement(f, grid, magnitude)) | sign);
  return kWay == kFloatsPositive ? y + 0.0f : y;  // -0 + 0 is +0
}

// --- All blocks
// -----------------------------------------------------------------------------------------------------

BITPRESS_DEVICE double PowerOfTwo(int exponent) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(exponent + 1023) << 52);
}
BITPRESS_DEVICE double Wide(uint32_t bits) { return static_cast<double>(Float(bits)); }
// Returns floor(log2 x) of a normal double.
BITPRESS_DEVICE int FloorLog2Of(double x) {
  return static_cast<int>(__builtin_bit_cast(uint64_t, x) >> 52 & 0x7FFu) - 1023;
}

BITPRESS_DEVICE double RoundWide(double x, int rounding) {
  if (rounding == kHalfToEven) return __builtin_rint(x);
  const bool away = rounding == kHalfAwayFromZero;
  const double from = away ? __builtin_fabs(x) : x;
  const double below = __builtin_floor(from);
  const double rounded = from - below >= 0.5 ? below + 1.0 : below;
  return away && x < 0.0 ? -rounded : rounded;
}

BITPRESS_DEVICE int ExponentOf(const BlockFormat& f, double magnitude) {
  const bool is_subnormal = f.reads_exponent_field && magnitude < PowerOfTwo(-126);
  return (is_subnormal ? -127 : FloorLog2Of(magnitude)) - f.max_exponent;
}
// Returns the exponent that a largest magnitude wants before it is limited.
BITPRESS_DEVICE int WantedExponentOf(const BlockFormat& f, uint32_t amax_bits) {
  const double amax = Wide(amax_bits);
  const int floor = ExponentOf(f, amax);
  if (f.choice == kCeil) {
    return amax > static_cast<double>(f.max_value) * PowerOfTwo(floor) ? floor + 1 : floor;
  }
  if (f.choice == kEven) {
    return ExponentOf(f, amax + PowerOfTwo(FloorLog2Of(amax) - f.fraction_bits - 1));
  }
  return floor;
}
BITPRESS_DEVICE int LimitShared(const BlockFormat& f, int exponent) {
  return f.limits_shared ? Limited(exponent, f.least_shared, f.most_shared) : exponent;
}
BITPRESS_DEVICE int ShiftOf(const BlockFormat& f, int shared, uint32_t sub_amax) {
  return sub_amax == 0 ? f.max_shift
                       : Limited(shared - WantedExponentOf(f, sub_amax), 0, f.max_shift);
}

// Rounds a finite value at an exponent: the shared one less the sub-block's shift.
BITPRESS_DEVICE float RoundAt(const BlockFormat& f, uint32_t bits, int exponent) {
  const bool is_flushed = f.flush_subnormals && (bits & kExponentBits) == 0;
  const double x = is_flushed ? 0.0 : Wide(bits);
  double value;
  if (f.element == kFloatElement) {
    const double magnitude = __builtin_fabs(x);
    const int own = magnitude == 0.0 ? f.min_exponent : FloorLog2Of(magnitude) - exponent;
    const int step = Limited(own, f.min_exponent, f.max_exponent) - f.fraction_bits;
    const double steps = __builtin_rint(magnitude * PowerOfTwo(-exponent - step));
    const double limit = static_cast<double>(f.max_value);
    value = __builtin_fmin(steps * PowerOfTwo(step), limit) * PowerOfTwo(exponent);
    value = x < 0.0 ? -value : value;
  } else {
    const double top = PowerOfTwo(f.fraction_bits + 1);
    const double steps = RoundWide(x * PowerOfTwo(f.fraction_bits - exponent), f.rounding);
    const double least = f.element == kTwosComplement ? -top : 1.0 - top;
    const double code = __builtin_fmin(__builtin_fmax(steps, least), top - 1.0);
    value = code * PowerOfTwo(exponent - f.fraction_bits);
  }
  const double largest = Wide(0x7F7FFFFFu);
  const float y = static_cast<float>(__builtin_fmin(__builtin_fmax(value, -largest), largest));
  if (y != 0.0f) return y;
  const bool is_negative =
      f.zero == kKeepSign ? (bits & kSignBit) != 0 : f.zero == kQuarkNearest && bits == kSignBit;
  return Float(is_negative ? kSignBit : 0u);
}

// Returns the squared error of a rounded value in units of 2^scale.
BITPRESS_DEVICE float SquaredError(float rounded, uint32_t bits, int scale) {
  const double difference = static_cast<double>(rounded) - Wide(bits);
  const float error = static_cast<float>(difference * PowerOfTwo(-scale));
  return error * error;
}

}  // namespace bitpress::cuda
