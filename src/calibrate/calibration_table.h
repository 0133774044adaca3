// The result of calibration: statistics by value name, with the model and the number of samples
// that they are of. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibrate/statistics.h"

namespace bitpress::calibrate {

struct CalibrationTable {
  std::string model_name;          // a name for people; not compared
  uint64_t model_fingerprint = 0;  // graph::Model::Fingerprint of the prepared float model
  uint64_t num_samples = 0;        // samples that ran
  // The statistics of every value that was watched, even if it never came.
  std::map<std::string, TensorStatistics> tensors;
  // The names of the samples that were left out because they failed, sorted.
  std::vector<std::string> left_out = {};

  // Adds the samples of the other table. The result is exactly that of one pass over both. Throws
  // Error(kInvalidArgument) if the other is of another model, or watched other values, naming one.
  void Merge(const CalibrationTable& other);

  bool operator==(const CalibrationTable&) const = default;
};

}  // namespace bitpress::calibrate
