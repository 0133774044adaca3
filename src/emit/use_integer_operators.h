// Rewrites an integer model from the QDQ form to the QOperator form (pass use-integer-operators).
// Use it for runtimes and tools that expect that form in the file. Operators between
// DequantizeLinear and QuantizeLinear become operators on codes (QLinearConv, QLinearMatMul, and
// ONNX Runtime's QGemm, QLinearAdd, ...). ONNX Runtime makes the same operators of the QDQ form
// when it loads a model.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"

namespace bitpress::emit {

struct IntegerOperators {
  size_t num_nodes = 0;
  // The nodes that read codes but stay between DequantizeLinear and QuantizeLinear: node and
  // reason.
  std::vector<std::pair<std::string, std::string>> omissions;
};
constexpr auto FieldsOf(const IntegerOperators*) {
  return std::tuple(Field{"num_nodes", &IntegerOperators::num_nodes},
                    Field{"left", &IntegerOperators::omissions});
}

// Rewrites operators on codes of 8 bits whose activations have one scale.
//  - A Relu or Clip is merged into the operator before it if the codes saturate at the same limits.
//  - An operator that only moves elements works on codes if its input and output have one scale.
//  - A product whose result is not quantized (QGemm, MatMulIntegerToFloat) gives floats.
// REQUIRES: biases in int32 have the scale of their products and zero point 0, as QuantizeWeights
// writes them.
IntegerOperators UseIntegerOperators(graph::Model& model);

}  // namespace bitpress::emit
