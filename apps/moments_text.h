// The text of what a file of moments holds.
#pragma once

#include <string>

#include "tasks/tuning.h"

namespace bitpress::apps {

// Returns "all.bpm: moments of 'model.onnx' ..." and, if wanted, a line for each layer.
std::string ToText(const std::string& path, const tasks::MomentsSummary& summary, bool with_layers);

}  // namespace bitpress::apps
