// The settings of the passes that change the float model before it is planned (equalization.h), as
// rows of the table of all settings.
#pragma once

#include <vector>

#include "plan/quant_config.h"

namespace bitpress::plan {

// Adds the rows of these settings to those of AllSettings.
void AddEqualizationSettings(std::vector<Setting>& settings);

}  // namespace bitpress::plan
