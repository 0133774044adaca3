// Calibration files, as the files of the corridor read them. Only for those.
#pragma once

#include <filesystem>

#include "calibrate/calibration_table.h"
#include "graph/model.h"

namespace bitpress::pipeline {

// The calibration file, checked to be of the model as it was prepared. Throws Error naming it.
calibrate::CalibrationTable LoadTable(const graph::Model& model, bool is_equalized,
                                      const std::filesystem::path& path);

}  // namespace bitpress::pipeline
