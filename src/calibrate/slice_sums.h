// Fast exact sums over the slices of one tensor, for TensorStatistics::AddSlices. Additions go to
// 128-bit integers as long as the values lie in the range of exponents of most values, and to
// ExactSum otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

// Adds the slices `begin` to `end - 1` of a tensor [outer, num_slices, inner] to `slices`, to their
// histograms too if they have some. NaN and infinities are left out. Different ranges may be added
// at the same time. REQUIRES: begin <= end
// <= num_slices <= slices.size(), whole rows of slices.
void AddSliceRange(std::span<const float> values, size_t num_slices, size_t inner, size_t begin,
                   size_t end, std::span<SliceStatistics> slices);

}  // namespace bitpress::calibrate
