// The elements that share scale and zero point in Quark's ExtendedQuantizeLinear and
// ExtendedDequantizeLinear, on all providers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitpress::custom_ops {

// The runs of neighbouring elements that share a scale: one run of all elements, or a run for each
// index of the axis.
struct Runs {
  size_t num_scales = 1;
  size_t count = 1;   // number of runs
  size_t length = 1;  // elements in a run
};

// Returns the runs of a tensor. Throws Error(kInvalidModel) if scales, zero points and axis do not
// fit it.
Runs RunsOf(int64_t axis, const std::vector<int64_t>& dims, size_t num_elements, size_t num_scales,
            size_t num_zero_points);

// Throws Error(kInvalidModel) if a scale is not positive and finite.
void CheckScales(std::span<const float> scales);

}  // namespace bitpress::custom_ops
