// The result of calibration: statistics by value name, and what they are of. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

struct CalibrationTable {
  std::string model_name;          // for people; not compared
  uint64_t model_fingerprint = 0;  // graph::Model::Fingerprint of the float model, prepared
  uint64_t num_samples = 0;        // that ran
  // Every value that was watched, also one that never came.
  std::map<std::string, TensorStatistics> tensors;

  // Adds the samples of the other table up: exactly what one pass over both would give. Throws
  // Error(kInvalidArgument) if it is of another model, or watched other values, naming one.
  void Merge(const CalibrationTable& other);

  bool operator==(const CalibrationTable&) const = default;
};

}  // namespace bitpress::calibrate
