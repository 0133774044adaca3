// The function in front of an operator of ONNX Runtime that reads codes of 4 bits, for weights
// whose codes have 3 bits in the file (native_form.h): `bitpress.Widen_int3` and
// `bitpress.Widen_uint3`. It moves bytes by lookups, and ONNX Runtime folds it into a constant when
// it loads the model, before the operator puts its weight in order. So products are as fast as
// those of 4 bits. Pure.
#pragma once

#include <string>

#include "graph/model.h"

namespace bitpress::weights {

// Returns the name of the function: uint3 for weights with zero points.
std::string WidenerName(bool has_zero_points);

// Returns the function. Its input holds whole groups of codes of 3 bits (formats/pack.h), [groups,
// 3]. It gives the same codes with 4 bits, two to a byte, in the shape of its attribute `shape`.
// Without zero points, the code that means zero, 4, becomes that of the operator, 8.
graph::FunctionSpec WidenerFunction(bool has_zero_points);

}  // namespace bitpress::weights
