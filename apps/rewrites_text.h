// The summary of what was done to the layers of a model before it was quantized, as text.
#pragma once

#include <string>
#include <string_view>

#include "rewrite/prepare.h"
#include "rewrite/smooth.h"

namespace bitpress::apps {

// Describes what preparation changed or did not, how many layers were equalized and rotated, and
// with `is_verbose` why others were left alone.
std::string DescribeRewrites(const rewrite::RewriteReport& report, bool is_verbose);

// Describes how many activations were scaled, and where their factors went. `what` is the word
// before it.
std::string DescribeScaled(std::string_view what, const rewrite::SmoothReport& report);

// Does the same for SmoothQuant, with `is_verbose` with the alphas that were chosen.
std::string DescribeSmoothing(const rewrite::SmoothReport& report, bool is_verbose);

}  // namespace bitpress::apps
