// The text that `bitpress quantize` prints when it is done.
#pragma once

#include <string>

#include "tasks/quantize.h"

namespace bitpress::apps {

// Describes the results: the verdict (tasks/verdict.h) and what was out of the ordinary, and with
// `is_verbose` all the rest. The first line names the file; the others begin with two spaces.
std::string DescribeQuantized(const tasks::QuantizeOptions& options,
                              const tasks::QuantizeReport& report, bool is_verbose);

}  // namespace bitpress::apps
