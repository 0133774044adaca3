#include "kernels/extended_instance_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "formats/float_bits.h"

namespace bitpress::kernels {
namespace {

using formats::BiasedExponent;
using formats::FloatBits;
using formats::FloatFromBits;

// Returns x rounded to bfloat16, ties to even, by adding to the bits whatever they mean.
float RoundToBFloat16(float x) {
  const uint32_t bits = FloatBits(x);
  return FloatFromBits((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

// Returns x rounded to the distance of float32 numbers at 2^(exponent - 127), as an adder does that
// aligns its operands to the largest of them. An exponent beyond 8 bits carries into the sign.
float AlignTo(float x, int exponent) {
  const float aligner = FloatFromBits((FloatBits(x) & formats::kFloatSignBit) +
                                      (static_cast<uint32_t>(exponent) << 23));
  return (x + aligner) - aligner;
}

// The exponent of a product before it is normalized.
int ExponentOfProduct(float a, float b) {
  return BiasedExponent(a) + BiasedExponent(b) - formats::kFloatBias;
}

// Returns a * b + c in an adder that aligns both addends.
float MultiplyAdd(float a, float b, float c) {
  const int exponent = std::max(ExponentOfProduct(a, b), BiasedExponent(c));
  return AlignTo(c, exponent) + AlignTo(a * b, exponent);
}

// Returns a * b + c + d in an adder that aligns all three addends.
float MultiplyAddTwo(float a, float b, float c, float d) {
  const int exponent =
      std::max(std::max(ExponentOfProduct(a, b), BiasedExponent(c)), BiasedExponent(d));
  return AlignTo(c, exponent) + AlignTo(d, exponent) + AlignTo(a * b, exponent);
}

// Returns c - a * a from products of bfloat16 numbers. `a` is the sum of three of them, and the
// nine products are added from small to large.
float SubtractSquare(float a, float c) {
  const float high = RoundToBFloat16(a);
  const float middle = RoundToBFloat16(a - high);
  const float low = RoundToBFloat16(a - high - middle);
  float sum = low * -low;
  sum = MultiplyAdd(low, -middle, sum);
  sum = MultiplyAdd(middle, -low, sum);
  sum = MultiplyAdd(high, -low, sum);
  sum = MultiplyAdd(middle, -middle, sum);
  sum = MultiplyAdd(low, -high, sum);
  sum = MultiplyAdd(middle, -high, sum);
  sum = MultiplyAdd(high, -middle, sum);
  return MultiplyAddTwo(high, -high, sum, c);
}

}  // namespace

void ExtendedInstanceNorm(const float* x, float* y, size_t count, float scale, float bias,
                          float epsilon) {
  float sum = 0;
  float sum_of_squares = 0;
  for (size_t i = 0; i < count; ++i) {
    const float value = RoundToBFloat16(x[i]);
    sum += value;
    // The square is exact in double, and the sum is rounded twice.
    sum_of_squares = static_cast<float>(static_cast<double>(sum_of_squares) +
                                        static_cast<double>(value) * static_cast<double>(value));
  }
  const auto inverse_count = static_cast<float>(1.0 / static_cast<double>(count));
  const float mean = sum * inverse_count;
  const float variance = SubtractSquare(mean, sum_of_squares * inverse_count);
  const float inverse_deviation = RoundToBFloat16(std::pow(variance + epsilon, -0.5f));
  const float scaled_mean = RoundToBFloat16(RoundToBFloat16(mean) * inverse_deviation);
  const float rounded_scale = RoundToBFloat16(scale);
  const float rounded_bias = RoundToBFloat16(bias);
  for (size_t i = 0; i < count; ++i) {
    const float scaled = RoundToBFloat16(RoundToBFloat16(x[i]) * inverse_deviation);
    const float centered = RoundToBFloat16(scaled - scaled_mean);
    y[i] = RoundToBFloat16(rounded_scale * centered + rounded_bias);
  }
}

}  // namespace bitpress::kernels
