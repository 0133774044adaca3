// The arithmetic of formats without blocks and of codes with scale and zero point on the device,
// equal to that of the operators on the CPU (custom_ops/extended_operators.cc).
#pragma once

#include "cuda/block_math.h"

namespace bitpress::cuda {

// Rounds to bfloat16 as an integer: half of the dropped bits' range less one, plus the last kept
// bit.
BITPRESS_DEVICE uint32_t RoundBits16(uint32_t bits) { return bits + 0x7FFFu + (bits >> 16 & 1u); }

// Rounds a value to a format without blocks.
BITPRESS_DEVICE uint32_t RoundAlone(const ElementArgs& a, uint32_t bits) {
  const uint32_t sign = bits & kSignBit, magnitude = bits & kMagnitudeBits;
  if (magnitude > (a.passes_infinity ? kExponentBits - 1 : kExponentBits)) return bits;
  const uint32_t limited = Smaller(magnitude, a.limit);
  if (a.is_bfloat16) return (RoundBits16(limited) & 0xFFFF0000u) | sign;
  const float magic = Float((Larger(limited, a.least_exponent) & kExponentBits) + a.magic_offset);
  return Bits((Float(limited) + magic) - magic) | sign;
}

struct Parameters {
  float scale;
  int64_t zero_point;  // float16 and bfloat16: the bits
};

// Codes as numbers; float16 and bfloat16 as their bits.
BITPRESS_DEVICE int64_t LoadCode(const void* from, int64_t i, int code) {
  switch (code) {
    case kUInt8:
      return static_cast<const uint8_t*>(from)[i];
    case kInt8:
      return static_cast<const int8_t*>(from)[i];
    case kInt16:
      return static_cast<const int16_t*>(from)[i];
    case kUInt32:
      return static_cast<const uint32_t*>(from)[i];
    case kInt32:
      return static_cast<const int32_t*>(from)[i];
    default:
      return static_cast<const uint16_t*>(from)[i];
  }
}
BITPRESS_DEVICE void StoreCode(int64_t value, void* to, int64_t i, int code) {
  if (code == kUInt8 || code == kInt8) {
    static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(value);
  } else if (code == kUInt32 || code == kInt32) {
    static_cast<uint32_t*>(to)[i] = static_cast<uint32_t>(value);
  } else {
    static_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(value);
  }
}

BITPRESS_DEVICE int64_t LeastCode(int code) {
  return code == kInt8 ? -128 : code == kInt16 ? -32768 : code == kInt32 ? -2147483648LL : 0;
}
BITPRESS_DEVICE int64_t LargestCode(int code) {
  switch (code) {
    case kUInt8:
      return 255;
    case kInt8:
      return 127;
    case kUInt16:
      return 65535;
    case kInt16:
      return 32767;
    case kUInt32:
      return 4294967295LL;
    default:
      return 2147483647LL;
  }
}

// Rounds finite and infinite floats to a half float's bits, ties to even; NaN becomes a quiet one.
BITPRESS_DEVICE uint32_t HalfBits(uint32_t bits) {
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & kMagnitudeBits;
  if (magnitude > kExponentBits) return sign | 0x7E00u | (magnitude >> 13 & 0x1FFu);
  if (magnitude >= 143u << 23) return sign | 0x7C00u;
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return sign;
  const uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;
  const uint32_t significand = (magnitude & kMantissaBits) | kOneExponent;
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
  return sign | ((exponent >= 113 ? (exponent - 113) << 10 : 0u) + rounded);
}
// Returns the float of a half float's bits. NaN keeps its payload.
BITPRESS_DEVICE uint32_t BitsOfHalf(uint32_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return sign | kExponentBits | (magnitude & 0x3FFu) << 13;
  return sign | Bits(Float(magnitude << 13) * Float((127u + 112u) << 23));
}

// Adds numbers, NaN included, as x86 does: the first operand that is NaN, quiet, or the NaN with a
// sign that invalid operations give there.
BITPRESS_DEVICE uint32_t SumBits(uint32_t a, uint32_t b) {
  if ((a & kMagnitudeBits) > kExponentBits) return a | 0x00400000u;
  if ((b & kMagnitudeBits) > kExponentBits) return b | 0x00400000u;
  const float sum = Float(a) + Float(b);
  return sum == sum ? Bits(sum) : kQuietNan | kSignBit;
}
// Applies a positive, finite scale.
BITPRESS_DEVICE uint32_t Scaled(uint32_t x, float scale, bool divides) {
  if ((x & kMagnitudeBits) > kExponentBits) return x | 0x00400000u;
  return Bits(divides ? Float(x) / scale : Float(x) * scale);
}

// Returns the code of a value.
BITPRESS_DEVICE int64_t QuantizeToCode(uint32_t bits, const Parameters& p, int code) {
  if (code == kHalf) {
    // Quark ignores scale and zero point for float16, and clips infinity, too.
    const uint32_t magnitude = bits & kMagnitudeBits, largest = Bits(65504.0f);
    const bool is_larger = magnitude > largest && magnitude <= kExponentBits;
    return HalfBits(is_larger ? (bits & kSignBit) | largest : bits);
  }
  if (code == kBFloat16) {
    const uint32_t zero = static_cast<uint32_t>(p.zero_point) << 16;
    const uint32_t sum = SumBits(Scaled(bits, p.scale, true), zero);
    const bool is_nan = (sum & kMagnitudeBits) > kExponentBits;
    return (is_nan ? sum | 0x00400000u : RoundBits16(sum)) >> 16;
  }
  const float quotient = Float(bits) / p.scale;
  const int64_t least = LeastCode(code), largest = LargestCode(code);
  // Beyond 64 bits, and for NaN, Quark's conversion gives the smallest integer, and its sum with a
  // negative zero point wraps.
  if (!(__builtin_fabsf(quotient) < Float((127u + 63u) << 23))) {
    return p.zero_point < 0 ? largest : least;
  }
  const float bound = Float((127u + 40u) << 23);
  const float bounded = __builtin_fminf(__builtin_fmaxf(quotient, -bound), bound);
  const int64_t value = static_cast<int64_t>(__builtin_rintf(bounded)) + p.zero_point;
  return value < least ? least : value > largest ? largest : value;
}

// Returns the bits of the value that a code means.
BITPRESS_DEVICE uint32_t DequantizeCode(int64_t value, const Parameters& p, int code) {
  if (code == kHalf) return BitsOfHalf(static_cast<uint32_t>(value));
  if (code == kBFloat16) {
    const uint32_t zero = static_cast<uint32_t>(p.zero_point) << 16;
    const bool zero_is_nan = (zero & kMagnitudeBits) > kExponentBits;
    const uint32_t x = static_cast<uint32_t>(value) << 16;
    return Scaled(SumBits(x, zero_is_nan ? zero : zero ^ kSignBit), p.scale, false);
  }
  return Bits(static_cast<float>(value - p.zero_point) * p.scale);
}

}  // namespace bitpress::cuda
