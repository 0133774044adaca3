// Exact sums over the slices of one tensor, fast: additions go to 128-bit integers as long as the
// values lie in the range of exponents where most do, and to ExactSum otherwise. For
// TensorStatistics::AddSlices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

// Adds the slices `begin` to `end - 1` of a tensor [outer, slices.size(), inner] to `slices`; what
// is not finite is left out. Different ranges may be added at the same time. REQUIRES: begin <= end
// <= slices.size(), whole rows of slices.
void AddSliceRange(std::span<const float> values, size_t num_slices, size_t inner, size_t begin,
                   size_t end, std::vector<SliceStatistics>& slices);

}  // namespace bitpress::calibrate
