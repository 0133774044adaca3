#include "custom_ops/extended_runs.h"

#include <cmath>

#include "base/error.h"
#include "custom_ops/attributes.h"

namespace bitpress::custom_ops {

Runs RunsOf(int64_t axis, const std::vector<int64_t>& dims, size_t num_elements, size_t num_scales,
            size_t num_zero_points) {
  if (num_scales != num_zero_points) {
    Fail(ErrorCode::kInvalidModel, "there are {} scales and {} zero points, expected as many",
         num_scales, num_zero_points);
  }
  if (num_scales == 1) return {1, 1, num_elements};
  const auto at = static_cast<size_t>(AxisFromFront(axis, static_cast<int64_t>(dims.size())));
  if (static_cast<size_t>(dims[at]) != num_scales) {
    Fail(ErrorCode::kInvalidModel, "there are {} scales for an axis of length {}", num_scales,
         dims[at]);
  }
  Runs runs{num_scales, num_scales, 1};
  for (size_t i = 0; i < at; ++i) runs.count *= static_cast<size_t>(dims[i]);
  for (size_t i = at + 1; i < dims.size(); ++i) runs.length *= static_cast<size_t>(dims[i]);
  return runs;
}

void CheckScales(std::span<const float> scales) {
  for (size_t i = 0; i < scales.size(); ++i) {
    if (!(scales[i] > 0) || std::isinf(scales[i])) {
      Fail(ErrorCode::kInvalidModel, "scale {} is {}, expected a positive number", i, scales[i]);
    }
  }
}

}  // namespace bitpress::custom_ops
