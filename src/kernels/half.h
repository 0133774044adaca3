// Conversions between IEEE half floats and float32, for tensors of FLOAT16. They work by bits, so
// that they depend neither on denormals-are-zero modes nor on F16C.
#pragma once

#include <cstdint>
#include <span>

namespace bitpress::kernels {

// Writes the exact value of half float x[i] to y[i]. NaN keeps its payload.
void HalfToFloat(std::span<const uint16_t> x, float* y);
// Writes the half float nearest to x[i] to y[i], ties to even; beyond 65504 (rounded) infinity. NaN
// becomes a quiet NaN.
void FloatToHalf(std::span<const float> x, uint16_t* y);

}  // namespace bitpress::kernels
