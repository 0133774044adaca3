// Correlations of planes with few taps, for depthwise convolutions and their gradients. A plane is
// read as one row: whatever its width, tap t of position i reads x[i + offsets[t]]. So small planes
// fill vectors, and positions at the ends of rows, which mean nothing, are computed too.
#pragma once

#include <cstddef>
#include <span>

namespace bitpress::kernels {

// Positions are computed in whole groups of so many.
inline constexpr size_t kPlaneStep = 16;

// Writes start + the sum over t of taps[t] * x[i + offsets[t]] to y[i] for i < count. REQUIRES: x
// can be read and y written up to count rounded up to kPlaneStep.
void CorrelatePlane(const float* x, size_t count, std::span<const float> taps,
                    std::span<const size_t> offsets, float start, float* y);

// Adds the sum over i < count of g[i] * x[i + offsets[t]] to sums[t]. REQUIRES: x and g can be read
// up to count rounded up to kPlaneStep, and g is 0 from count on.
void AddPlaneProducts(const float* x, const float* g, size_t count, std::span<const size_t> offsets,
                      float* sums);

}  // namespace bitpress::kernels
