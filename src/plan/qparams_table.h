// Scales and zero points by the name of what they quantize, as other rooms give them to this one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/qparams.h"

namespace bitpress::plan {

// Of activations.
using QParamsTable = std::map<std::string, formats::QParams>;
// Of weights whose scales were learned: of integers in the order of IntegerWeight::scale_dims, of
// scaled floats the one scale.
using WeightQParamsTable = std::map<std::string, std::vector<formats::QParams>>;

}  // namespace bitpress::plan
