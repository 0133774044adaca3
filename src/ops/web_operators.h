// The operators that onnxruntime-web has in a browser. Its WebAssembly build compiles ONNX
// Runtime's CPU kernels, and no operators of other libraries can be added to it. Use it for models
// that run in a browser. The list is web_operators.inc, made by tools/make_web_operators.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

// The version of ONNX Runtime whose kernels are listed.
std::string_view WebRuntimeVersion();

// Returns whether it has a kernel for a node, or the standard defines the operator by others.
bool IsInWeb(const graph::Node& node);

// Returns the operators of a model, bodies included, that onnxruntime-web does not have, as "Conv"
// or "domain::Op", each once and sorted. Operators with a function in the model count as its own.
std::vector<std::string> OperatorsMissingInWeb(const graph::Model& model);

}  // namespace bitpress::ops
