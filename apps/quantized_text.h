// What `quantize` did, as text.
#pragma once

#include <string>

#include "pipeline.h"

namespace bitpress::apps {

// The first line names the file; the others begin with two spaces.
std::string DescribeQuantized(const pipeline::QuantizeOptions& options,
                              const pipeline::QuantizeReport& report);

}  // namespace bitpress::apps
