// The operators that ONNX Runtime's CPU provider computes on 8-bit codes: which float operators
// have such a kernel, and how the operators on codes read their inputs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

bool IsQuantize(const graph::Node& node);    // QuantizeLinear
bool IsDequantize(const graph::Node& node);  // DequantizeLinear

// Returns whether the operator computes on codes: QLinearConv, MatMulInteger and their kin.
bool IsIntegerOperator(const graph::Node& node);

// Returns whether the node is a MatMulInteger of a lookup in a table of codes
// (weights/lookup_nodes.h), which puts the bits of codes together and computes nothing.
bool GivesIndices(const graph::Model& model, const graph::Node& node);

// Returns whether ONNX Runtime computes a float operator on 8-bit codes if Q/DQ pairs stand around
// it.
bool HasIntegerKernel(std::string_view op_type);

// Returns why ONNX Runtime's kernel on codes cannot do what this node does, for attributes that it
// lacks, or "". REQUIRES: HasIntegerKernel(node.op_type()).
std::string WhyNoIntegerForm(const graph::Node& node);

// Returns whether the kernels that multiply codes take a scale and a zero point for each output
// channel of a constant input, which has `rank` dimensions. Data and left matrices have one scale,
// and so have stacked matrices.
bool TakesChannelScales(const graph::Node& node, size_t input, int64_t rank);

// Returns whether such a kernel can give floats, so that the output needs no quantizer.
bool GivesFloatsFromCodes(std::string_view op_type);

// Returns whether the operator multiplies matrices or images, fused forms and attention included:
// these take most of a model's time.
bool TakesMostTime(std::string_view op_type);

// The indices of the inputs of an operator on codes that multiplies; -1: it has no such input.
struct IntegerSignature {
  std::string_view op_type;
  int activations = 0;
  int activation_zero_point = -1;
  int weight = 1;
  int weight_zero_point = -1;
  bool is_image = false;
  int also_weight = -1;  // the recurrent weight of an LSTM
};

// Returns null for operators that multiply no codes.
const IntegerSignature* IntegerSignatureOf(const graph::Node& node);

}  // namespace bitpress::ops
