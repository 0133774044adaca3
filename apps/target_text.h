// What ONNX Runtime makes of a model, as text.
#pragma once

#include <string>

#include "deploy/check_target.h"

namespace bitpress::apps {

// Says whether kinds of processors differ, and names up to `max_nodes` operators that can saturate.
// Lines that begin with two spaces; "" where all give the same.
std::string DescribeProcessors(const evaluate::ProcessorReport& report, size_t max_nodes);

// Lines that begin with two spaces. Names up to so many operators in float, and so many that can
// saturate.
std::string DescribeTarget(const deploy::TargetReport& report, size_t max_float_nodes,
                           size_t max_saturating_nodes);

}  // namespace bitpress::apps
