// Looks at the values of a table that a Gather looks rows up in: embeddings are
// quantized, other tables are not. Pure.
#pragma once

#include <string>

#include "graph/model.h"

namespace bitpress::plan {

// Returns why a table stays float, or "": it holds NaN or infinity, its rows have four numbers or
// less, such as the anchors of a detector, or its columns are waves. Those are the cosines and
// sines by which rotary positions turn activations. They are small, and their errors grow with the
// position. REQUIRES: the type is FLOAT or FLOAT16, two dimensions or more.
std::string WhyTableStaysFloat(const graph::InitializerView& table);

}  // namespace bitpress::plan
