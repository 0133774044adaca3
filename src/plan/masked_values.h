// The values that hold masked elements: -infinity, or numbers far below all others, which Softmax
// makes 0. Elements that share a scale with such a number vanish beside it, so that these values
// stay float where blocks or tensors share one. Pure.
#pragma once

#include <set>
#include <string>

#include "graph/model.h"

namespace bitpress::plan {

// Returns what nodes add or choose masks into, and what passes it on as it is. A mask is a constant
// with infinity, or with a number of -10000 or less, as exporters of attention write it.
std::set<std::string> MaskedValues(const graph::Model& model);

}  // namespace bitpress::plan
