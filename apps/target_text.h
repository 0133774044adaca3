// What ONNX Runtime makes of a model, as text.
#pragma once

#include <string>

#include "evaluate/check_target.h"

namespace bitpress::apps {

// Lines that begin with two spaces. `max_nodes` of the operators in float are named.
std::string DescribeTarget(const evaluate::TargetReport& report, size_t max_nodes);

}  // namespace bitpress::apps
