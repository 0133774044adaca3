// These functions tell people what evaluations found.
#pragma once

#include <string>

#include "evaluate/evaluate.h"

namespace bitpress::apps {

// Returns the figures of a report, one a line. Times are left out if none were measured.
std::string ToText(const evaluate::EvaluationReport& report);

}  // namespace bitpress::apps
