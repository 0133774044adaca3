// Settings of the passes that change the float model before it is planned.
#pragma once

#include <vector>

#include "plan/quant_config.h"

namespace bitpress::plan {

// Rows for AllSettings.
void AddEqualizationSettings(std::vector<Setting>& settings);

}  // namespace bitpress::plan
