// Pass use-integer-operators: the QOperator form of integer models. Operators between
// DequantizeLinear and QuantizeLinear become operators on codes (QLinearConv, QLinearMatMul, and
// ONNX Runtime's QGemm, QLinearAdd, ...): what ONNX Runtime makes of the QDQ form when it loads a
// model, but in the file, for runtimes and tools that expect it there.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::emit {

struct IntegerOperators {
  size_t num_nodes = 0;
  // Nodes that read codes and stay between DequantizeLinear and QuantizeLinear: node and reason.
  std::vector<std::pair<std::string, std::string>> omissions;
};

// Codes of 8 bits, activations of one scale. A Relu or Clip goes into the operator before it if the
// codes saturate where it does; an operator that only moves elements works on codes where both
// sides have one scale. Products whose result is not quantized (QGemm, MatMulIntegerToFloat) give
// floats. REQUIRES: biases in int32 have the scale of their products and zero point 0, as
// QuantizeWeights writes them.
IntegerOperators UseIntegerOperators(graph::Model& model);

}  // namespace bitpress::emit
