// Helpers that the tests of statistics in this room share. Not part of the library.
#pragma once

#include <limits>
#include <vector>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline TensorStatistics StatisticsOf(const std::vector<float>& values) {
  TensorStatistics statistics;
  statistics.Add(values);
  return statistics;
}

}  // namespace bitpress::calibrate
