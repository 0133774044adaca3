// What PTX instructions compute, for translated kernels (test_ptx_machine.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/half.h"

namespace bitpress::cuda {

template <class Number, class Word>
Number As(Word bits) {
  return std::bit_cast<Number>(bits);
}
// Returns the bits of a result. A device gives one NaN, whatever went in.
inline uint32_t BitsOf(float x) { return std::isnan(x) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(x); }
inline uint64_t BitsOf(double x) {
  return std::isnan(x) ? 0x7FF8000000000000ull : std::bit_cast<uint64_t>(x);
}

template <class T>
T Min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? a : b;
    return std::isnan(a) || b < a ? b : a;
  }
  return std::min(a, b);
}
template <class T>
T Max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? b : a;
    return std::isnan(a) || b > a ? b : a;
  }
  return std::max(a, b);
}
template <class T>
T ShiftLeft(T x, uint32_t count) {
  return count >= sizeof(T) * 8 ? T{0} : static_cast<T>(x << count);
}
template <class T>
T ShiftRight(T x, uint32_t count) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  if constexpr (std::is_signed_v<T>) return static_cast<T>(x >> std::min(count, kBits - 1));
  return count >= kBits ? T{0} : static_cast<T>(x >> count);
}
inline uint32_t BitField(uint32_t x, uint32_t position, uint32_t count) {
  const uint32_t shifted = ShiftRight(x, position & 0xFFu);
  return (count & 0xFFu) >= 32 ? shifted : shifted & ((1u << (count & 0xFFu)) - 1);
}
inline uint32_t Permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t y = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t from = selector >> 4 * i & 0xFu;
    const uint32_t byte = static_cast<uint32_t>(both >> 8 * (from & 7u)) & 0xFFu;
    y |= (from & 8u ? (byte & 0x80u ? 0xFFu : 0u) : byte) << 8 * i;
  }
  return y;
}
// Converts between kinds of numbers. To integers it saturates, and NaN becomes 0, as on a device.
template <class To, class From>
To Convert(From x) {
  if constexpr (std::is_integral_v<To>) {
    if (std::isnan(x)) return To{0};
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

inline uint32_t WidenHalf(uint16_t half) {
  float y;
  kernels::HalfToFloat({&half, 1}, &y);
  return BitsOf(y);
}
inline uint16_t NarrowFloat(uint32_t bits) {
  const auto x = std::bit_cast<float>(bits);
  if (std::isnan(x)) return 0x7FFFu;
  uint16_t y;
  kernels::FloatToHalf({&x, 1}, &y);
  return y;
}

}  // namespace bitpress::cuda
