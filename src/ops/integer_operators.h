// The operators that compute on codes, and what those cannot do that the operators on floats can.
// Which operator on codes stands for which one on floats is in ops/operator_traits.h. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

bool IsQuantize(const graph::Node& node);    // QuantizeLinear
bool IsDequantize(const graph::Node& node);  // DequantizeLinear

// Returns whether the operator computes on codes: QLinearConv, MatMulInteger and the like.
bool IsIntegerOperator(const graph::Node& node);

// Returns whether the node is a MatMulInteger of a lookup in a table of codes
// (weights/lookup_nodes.h), which puts the bits of codes together and computes nothing.
bool GivesIndices(const graph::Model& model, const graph::Node& node);

// Returns why ONNX Runtime's kernel on codes cannot do what this node does, for attributes that it
// lacks, or "".
std::string WhyNoIntegerForm(const graph::Node& node);

// Returns whether the kernels that multiply codes take a scale and a zero point for each output
// channel of a constant input, which has `rank` dimensions. Data and left matrices have one scale,
// and so have stacked matrices.
bool TakesChannelScales(const graph::Node& node, size_t input, int64_t rank);

}  // namespace bitpress::ops
