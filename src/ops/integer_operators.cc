#include "ops/integer_operators.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "ops/compute_ops.h"

namespace bitpress::ops {
namespace {

using graph::Node;

constexpr std::string_view kIntegerKernels[] = {
    "Conv",      "MatMul",    "Gemm",    "Add",       "Mul",     "AveragePool",
    "Sigmoid",   "LeakyRelu", "Softmax", "Concat",    "MaxPool", "GlobalAveragePool",
    "Reshape",   "Transpose", "Squeeze", "Unsqueeze", "Split",   "Resize",
    "Flatten",   "Slice",     "Gather",  "Where",     "Tile",    "DepthToSpace",
    "FusedConv", "FusedGemm"};
constexpr std::string_view kFloatResults[] = {"MatMul", "Gemm", "FusedGemm"};
constexpr std::string_view kMultiplying[] = {
    "Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm",
    "LSTM", "FusedGemm", "GRU",           "RNN",    "Attention",   "MultiHeadAttention"};

constexpr IntegerSignature kSignatures[] = {
    {"QLinearConv", 0, 2, 3, 5, true, -1},
    {"QLinearMatMul", 0, 2, 3, 5, false, -1},
    {"QGemm", 0, 2, 3, 5, false, -1},
    {"MatMulInteger", 0, 2, 1, 3, false, -1},
    {"MatMulIntegerToFloat", 0, 4, 1, 5, false, -1},
    {"DynamicQuantizeMatMul", 0, -1, 1, 3, false, -1},
    {"QAttention", 0, 6, 1, 7, false, -1},
    {"DynamicQuantizeLSTM", 0, -1, 1, 9, false, 2},
};

template <size_t N>
bool Contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool IsQuantize(const Node& node) { return node.op_type() == "QuantizeLinear"; }
bool IsDequantize(const Node& node) { return node.op_type() == "DequantizeLinear"; }

bool IsIntegerOperator(const Node& node) {
  const std::string& op = node.op_type();
  return op.starts_with("QLinear") || op.find("Integer") != std::string::npos || op == "QGemm" ||
         op == "QMoE" || op.starts_with("QAttention") || op.starts_with("QOrdered") ||
         op == "DynamicQuantizeMatMul" || op == "DynamicQuantizeLSTM" || op == "MatMulNBits";
}

bool GivesIndices(const graph::Model& model, const Node& node) {
  if (node.op_type() != "MatMulInteger") return false;
  const std::vector<graph::Use> uses = model.Uses(node.output(0));
  return !uses.empty() && std::ranges::all_of(uses, [](const graph::Use& use) {
    return use.node.op_type() == "Gather" && use.input_index == 1;
  });
}

bool HasIntegerKernel(std::string_view op_type) { return Contains(kIntegerKernels, op_type); }

std::string WhyNoIntegerForm(const Node& node) {
  // QLinearAveragePool is older than this attribute of operator set 19.
  const bool has_dilations = node.op_type() == "AveragePool" && node.HasAttribute("dilations");
  return has_dilations ? "it has dilations" : "";
}

bool TakesChannelScales(const Node& node, size_t input, int64_t rank) {
  return input == 1 && (HasKernel(node) || rank == 2);
}

bool GivesFloatsFromCodes(std::string_view op_type) { return Contains(kFloatResults, op_type); }
bool TakesMostTime(std::string_view op_type) { return Contains(kMultiplying, op_type); }

const IntegerSignature* IntegerSignatureOf(const Node& node) {
  for (const IntegerSignature& signature : kSignatures) {
    if (node.op_type() == signature.op_type) return &signature;
  }
  return nullptr;
}

}  // namespace bitpress::ops
