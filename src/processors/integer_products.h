// Finds the integer products of a model that can saturate on x86 processors without VNNI
// (formats/pair_sums.h). Use it to find out whether a model gives other results there. It knows the
// models of any tool, as files and as the graphs that ONNX Runtime makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"
#include "kernels/pair_saturation.h"
#include "ops/integer_kernels.h"

namespace bitpress::processors {

// An operator that multiplies uint8 activations by a constant int8 weight. It is an operator on
// codes, such as QLinearConv, or a Conv, Gemm or MatMul between DequantizeLinear and
// QuantizeLinear, whose activations may be int8 in the file.
struct IntegerProduct {
  graph::Node node;
  std::string weight;             // initializer with the weight's codes
  std::string weight_zero_point;  // "": none
  bool is_image = false;          // the operator is a convolution
  // The file has a matrix as [outputs, inputs], and the operator or a Transpose turns it.
  bool is_transposed = false;
  ops::SumLayout sums;

  // Returns the pairs whose sums saturate for some activations. Pairs of one sum are neighbours.
  std::vector<kernels::SaturatingPair> Pairs(const graph::Model& model) const;
};

// Returns the products whose kernels saturate pair sums, in graph order. A recurrent operator has
// one product for each weight. An activation of unknown type counts as uint8.
std::vector<IntegerProduct> SaturatingKernels(const graph::Model& model);

// A node with pairs that can saturate.
struct SaturatingNode {
  std::string name;
  std::string op_type;
  uint64_t num_pairs = 0;
  uint64_t num_all_pairs = 0;
};
constexpr auto FieldsOf(const SaturatingNode*) {
  return std::tuple(
      Field{"name", &SaturatingNode::name,
            "The name of the node, or of its first output if it has none."},
      Field{"op_type", &SaturatingNode::op_type},
      Field{"num_pairs", &SaturatingNode::num_pairs, "Pairs of weights that can saturate."},
      Field{"num_all_pairs", &SaturatingNode::num_all_pairs, "All pairs of its weights."});
}
// Returns the nodes of a model with pairs that can saturate, in graph order.
std::vector<SaturatingNode> FindSaturatingNodes(const graph::Model& model);

}  // namespace bitpress::processors
