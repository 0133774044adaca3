// The text that `bitpress quantize` prints when it is done.
#pragma once

#include <string>

#include "tasks/quantize.h"

namespace bitpress::apps {

// Describes the results. The first line names the file; the others begin with two spaces.
std::string DescribeQuantized(const tasks::QuantizeOptions& options,
                              const tasks::QuantizeReport& report);

}  // namespace bitpress::apps
