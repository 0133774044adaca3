// IEEE half floats to float32 and back, by bits: independent of denormals-are-zero modes and of
// F16C.
#pragma once

#include <cstdint>
#include <span>

namespace bitpress::kernels {

// y[i] = the value of half float x[i], exactly. NaN keeps its payload.
void HalfToFloat(std::span<const uint16_t> x, float* y);
// y[i] = the half float nearest to x[i], ties to even; beyond 65504 (rounded) infinity. NaN stays
// NaN, quiet.
void FloatToHalf(std::span<const float> x, uint16_t* y);

}  // namespace bitpress::kernels
