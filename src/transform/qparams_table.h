// Scale and zero point of activations by name, as calibration gives them to this room.
#pragma once

#include <map>
#include <string>

#include "formats/qparams.h"

namespace bitpress::transform {

using QParamsTable = std::map<std::string, formats::QParams>;

}  // namespace bitpress::transform
