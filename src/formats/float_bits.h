// The bits of float32, and exact conversions between float32 and double. Code that must not depend
// on the processor's denormals-are-zero and flush-to-zero modes, which ONNX Runtime can set,
// computes in double between these conversions. They take float32 subnormals apart and put them
// together as integers. As doubles these are normal numbers, which the modes do not touch.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace bitpress::formats {

inline constexpr uint32_t kFloatSignBit = 0x80000000u;
inline constexpr uint32_t kFloatExponentMask = 0x7F800000u;
inline constexpr uint32_t kFloatMantissaMask = 0x007FFFFFu;
inline constexpr int kFloatMantissaBits = 23;
inline constexpr int kFloatBias = 127;

inline uint32_t FloatBits(float x) { return std::bit_cast<uint32_t>(x); }
inline float FloatFromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

inline int BiasedExponent(float x) {
  return static_cast<int>((FloatBits(x) & kFloatExponentMask) >> kFloatMantissaBits);
}
inline bool IsFinite(float x) { return BiasedExponent(x) != 255; }
inline bool IsNan(float x) { return (FloatBits(x) & ~kFloatSignBit) > kFloatExponentMask; }
inline bool IsPositiveFinite(float x) { return FloatBits(x) - 1 < kFloatExponentMask - 1; }
inline bool IsSubnormal(float x) {
  return BiasedExponent(x) == 0 && (FloatBits(x) & kFloatMantissaMask) != 0;
}

// Returns the float's exact value. Infinities and NaN become the double's.
inline double ToDouble(float x) {
  if (BiasedExponent(x) != 0) return static_cast<double>(x);
  const double magnitude = std::ldexp(static_cast<double>(FloatBits(x) & kFloatMantissaMask), -149);
  return FloatBits(x) & kFloatSignBit ? -magnitude : magnitude;
}

// Returns the nearest float, ties to even. Results below the normal range become subnormal floats,
// results above it infinity.
inline float RoundToFloat(double x) {
  constexpr double kMinNormal = 0x1p-126;
  if (!(std::fabs(x) < kMinNormal)) return static_cast<float>(x);
  // In units of 2^-149 the magnitude is below 2^23, so nearbyint in double is exact and the integer
  // fits.
  const double units = std::nearbyint(std::fabs(x) * 0x1p149);
  const uint32_t bits =
      static_cast<uint32_t>(units);  // 2^23 is the bit pattern of the smallest normal number
  return FloatFromBits(bits | (std::signbit(x) ? kFloatSignBit : 0u));
}

// Returns floor(log2 |x|). REQUIRES: x is finite, not zero, and not a double subnormal.
inline int FloorLog2(double x) {
  BITPRESS_DCHECK(std::isnormal(x));
  return std::ilogb(x);
}

}  // namespace bitpress::formats
