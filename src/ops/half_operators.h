// The operators that compute in FLOAT within a FLOAT16 network, because FLOAT16 has too few digits
// or too small a range for them. Pure.
#pragma once

#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

// Returns the reason why the operator keeps FLOAT, or "".
std::string_view WhyNotHalf(const graph::Node& node);

// Returns whether the operator moves, selects or joins elements, or computes each of them from one
// or two others with few digits lost: whether it passes on what its inputs need.
bool IsCheapOnElements(const graph::Node& node);

// Returns whether the operator sums products: matrix products and convolutions.
bool SumsProducts(const graph::Node& node);

}  // namespace bitpress::ops
