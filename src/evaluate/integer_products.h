// The integer products of a model, and which of them can saturate on x86 processors without VNNI
// (formats/pair_sums.h). For models of any tool, as files and as the graphs that ONNX Runtime makes
// of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"
#include "kernels/pair_saturation.h"
#include "ops/integer_kernels.h"

namespace bitpress::evaluate {

// An operator that multiplies uint8 activations with a constant int8 weight: one on codes, such as
// QLinearConv, or a Conv, Gemm or MatMul between DequantizeLinear and QuantizeLinear.
struct IntegerProduct {
  graph::Node node;
  std::string weight;             // the codes, an initializer
  std::string weight_zero_point;  // "": none
  bool is_image = false;          // a convolution
  ops::SumLayout sums;

  // The pairs whose sums saturate for some activations, those of one sum together.
  std::vector<kernels::SaturatingPair> Pairs(const graph::Model& model) const;
};

// Those whose kernels saturate, in graph order. A recurrent operator has one for each weight. An
// activation whose type the graph does not tell counts as uint8.
std::vector<IntegerProduct> SaturatingKernels(const graph::Model& model);

// A node with pairs that can saturate.
struct SaturatingNode {
  std::string name;  // of its first output where it has none
  std::string op_type;
  uint64_t num_pairs = 0;      // that can saturate
  uint64_t num_all_pairs = 0;  // of its weights
};
std::vector<SaturatingNode> FindSaturatingNodes(const graph::Model& model);

}  // namespace bitpress::evaluate
