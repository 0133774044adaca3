// Quantization with scale and zero point (ONNX QuantizeLinear and DequantizeLinear) on runs of
// elements that share them, for every integer code type. It equals formats::ref::QuantizeInteger
// and DequantizeInteger. Loops are plain so that the compiler vectorizes them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bitpress::kernels {

// Sets y[i] = saturate(round_half_even(x[i] / scale) + zero_point). NaN gives zero_point. A scale
// that is not positive and finite, which a user's model may hold, gives codes of no use.
template <typename Code>
void QuantizeLinear(const float* x, Code* y, size_t count, float scale, Code zero_point) {
  constexpr int64_t kLeast = std::numeric_limits<Code>::min();
  constexpr int64_t kLargest = std::numeric_limits<Code>::max();
  if constexpr (sizeof(Code) <= 2) {
    // Codes of 16 bits and a zero point of 16 bits saturate beyond 2^17, where adding and
    // subtracting 1.5 * 2^23 still rounds to whole numbers, ties to even.
    constexpr float kBound = 0x1p18f;
    constexpr float kMagic = 0x1.8p23f;
    const int32_t zero = zero_point;
    for (size_t i = 0; i < count; ++i) {
      const float quotient = x[i] / scale;
      const float number = quotient == quotient ? quotient : 0.0f;
      const float bounded = std::min(std::max(number, -kBound), kBound);
      const int32_t code = static_cast<int32_t>((bounded + kMagic) - kMagic) + zero;
      y[i] = static_cast<Code>(
          std::min(std::max(code, static_cast<int32_t>(kLeast)), static_cast<int32_t>(kLargest)));
    }
  } else {
    constexpr double kBound = 0x1p40;
    for (size_t i = 0; i < count; ++i) {
      const float quotient = x[i] / scale;
      const double bounded =
          std::clamp(static_cast<double>(quotient == quotient ? quotient : 0.0f), -kBound, kBound);
      const int64_t code = static_cast<int64_t>(std::nearbyint(bounded)) + zero_point;
      y[i] = static_cast<Code>(std::clamp(code, kLeast, kLargest));
    }
  }
}

// Sets y[i] = (x[i] - zero_point) * scale, with the exact difference rounded to float32.
template <typename Code>
void DequantizeLinear(const Code* x, float* y, size_t count, float scale, Code zero_point) {
  using Wide = std::conditional_t<sizeof(Code) <= 2, int32_t, int64_t>;
  for (size_t i = 0; i < count; ++i)
    y[i] = static_cast<float>(Wide{x[i]} - Wide{zero_point}) * scale;
}

}  // namespace bitpress::kernels
