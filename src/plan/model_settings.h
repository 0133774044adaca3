// The settings about a model as a whole, of the passes that change it before it is planned
// (equalization.h) and of the guard, as rows of the table of all settings.
#pragma once

#include <vector>

#include "plan/quant_config.h"

namespace bitpress::plan {

// Adds the rows of these settings to those of AllSettings.
void AddEqualizationSettings(std::vector<Setting>& settings);
// Adds those of the guard, which calibration asks about the model as a whole (calibrate/guard.h).
void AddGuardSettings(std::vector<Setting>& settings);

}  // namespace bitpress::plan
