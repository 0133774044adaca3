#include "calibrate/calibration_table.h"

#include <algorithm>

#include "base/error.h"

namespace bitpress::calibrate {
namespace {

// Returns a value that only `a` has; "" if there is none.
std::string Missing(const CalibrationTable& a, const CalibrationTable& b) {
  for (const auto& [name, statistics] : a.tensors) {
    if (!b.tensors.contains(name)) return name;
  }
  return "";
}

}  // namespace

void CalibrationTable::Merge(const CalibrationTable& other) {
  if (model_fingerprint != other.model_fingerprint) {
    Fail(ErrorCode::kInvalidArgument,
         "the statistics are of different models ('{}', fingerprint {:016x}, and '{}', {:016x}); "
         "calibrate the same file with the same version of ONNX Runtime",
         model_name, model_fingerprint, other.model_name, other.model_fingerprint);
  }
  std::string missing = Missing(*this, other);
  if (missing.empty()) missing = Missing(other, *this);
  if (!missing.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "one has statistics of '{}', the other has none: they were gathered for different "
         "configurations",
         missing);
  }
  for (auto& tensor : tensors) {
    WithContext(tensor.first, [&] { tensor.second.Merge(other.tensors.at(tensor.first)); });
  }
  num_samples += other.num_samples;
  left_out.insert(left_out.end(), other.left_out.begin(), other.left_out.end());
  std::ranges::sort(left_out);
}

}  // namespace bitpress::calibrate
