// The codes of Quark's ExtendedQuantizeLinear and ExtendedDequantizeLinear on runs of elements that
// share scale and zero point.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "formats/float_bits.h"
#include "kernels/half.h"
#include "kernels/linear_quantize.h"

namespace bitpress::kernels {

// Floating-point codes. Each has a C++ type of its own, so that overloads can tell them apart.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float ToFloat(BFloat16 x) {
  return formats::FloatFromBits(static_cast<uint32_t>(x.bits) << 16);
}

inline void FromFloat(float x, Half& y) {
  // Quark clips finite values and infinities alike before the cast.
  const float clipped = x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
  FloatToHalf({&clipped, 1}, &y.bits);
}
inline void FromFloat(float x, BFloat16& y) {
  const uint32_t bits = formats::FloatBits(x);
  const uint32_t rounded =
      formats::IsNan(x) ? bits | 0x00400000u : bits + 0x7FFFu + (bits >> 16 & 1u);
  y.bits = static_cast<uint16_t>(rounded >> 16);
}

// Replaces the codes of quotients beyond 64 bits by Quark's. Quark converts the quotient to a
// 64-bit integer before it adds the zero point and saturates. A quotient that does not fit becomes
// the smallest integer, as x86 does it, and the sum with a negative zero point wraps to a large
// one. Our own quantization saturates.
template <typename Code>
void FixOverflow(const float* x, Code* y, size_t count, float scale, Code zero_point) {
  constexpr float kLimit = 0x1p63f;
  const Code code =
      zero_point < 0 ? std::numeric_limits<Code>::max() : std::numeric_limits<Code>::min();
  for (size_t i = 0; i < count; ++i) {
    if (!(std::fabs(x[i] / scale) < kLimit)) y[i] = code;
  }
}

template <typename Code>
void QuantizeExtended(const float* x, Code* y, size_t count, float scale, Code zero_point) {
  if constexpr (std::is_integral_v<Code>) {
    QuantizeLinear(x, y, count, scale, zero_point);
    FixOverflow(x, y, count, scale, zero_point);
  } else if constexpr (std::is_same_v<Code, Half>) {
    // Quark ignores scale and zero point for float16.
    for (size_t i = 0; i < count; ++i) FromFloat(x[i], y[i]);
  } else {
    const float zero = ToFloat(zero_point);
    for (size_t i = 0; i < count; ++i) FromFloat(x[i] / scale + zero, y[i]);
  }
}

template <typename Code>
void QuantizeExtended(const Half* x, Code* y, size_t count, float scale, Code zero_point) {
  constexpr size_t kChunk = 1024;
  float wide[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    HalfToFloat({&x[begin].bits, size}, wide);
    QuantizeExtended(wide, y + begin, size, scale, zero_point);
  }
}

template <typename Code>
void DequantizeExtended(const Code* x, float* y, size_t count, float scale, Code zero_point) {
  if constexpr (std::is_integral_v<Code>) {
    DequantizeLinear(x, y, count, scale, zero_point);
  } else if constexpr (std::is_same_v<Code, Half>) {
    HalfToFloat({&x->bits, count}, y);
  } else {
    const float zero = ToFloat(zero_point);
    for (size_t i = 0; i < count; ++i) y[i] = (ToFloat(x[i]) - zero) * scale;
  }
}

}  // namespace bitpress::kernels
