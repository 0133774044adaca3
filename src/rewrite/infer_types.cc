#include "rewrite/infer_types.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// An operator and those of its outputs that have the type of its first input. Other outputs of
// normalizations are statistics, which are FLOAT always.
struct SameType {
  std::string_view op_type;
  size_t outputs[3];
};
constexpr SameType kSameType[] = {
    {"GroupQueryAttention", {0, 1, 2}},
    {"MultiHeadAttention", {0, 1, 2}},
    {"Attention", {0, 0, 0}},
    {"RotaryEmbedding", {0, 0, 0}},
    {"SimplifiedLayerNormalization", {0, 0, 0}},
    {"SkipSimplifiedLayerNormalization", {0, 3, 3}},
    {"SkipLayerNormalization", {0, 3, 3}},
    {"BiasGelu", {0, 0, 0}},
    {"FastGelu", {0, 0, 0}},
    {"QuickGelu", {0, 0, 0}},
    {"FusedConv", {0, 0, 0}},
    {"FusedGemm", {0, 0, 0}},
    {"FusedMatMul", {0, 0, 0}},
    {"Gelu", {0, 0, 0}},
    {"BiasAdd", {0, 0, 0}},
    {"BiasSplitGelu", {0, 0, 0}},
    {"GroupNorm", {0, 0, 0}},
    {"NhwcConv", {0, 0, 0}},
    {"NhwcFusedConv", {0, 0, 0}},
};

// The domain of operators in the layout of one machine, which ONNX Runtime writes into models.
constexpr std::string_view kBlockedLayoutDomain = "com.microsoft.nchwc";

bool IsKnown(const Model& model, const std::string& value) {
  return model.InfoOf(value).type != DataType::kUndefined;
}

// Gives a value a type if it has none. Returns whether it did.
bool Describe(Model& model, const std::string& value, DataType type) {
  if (value.empty() || type == DataType::kUndefined || IsKnown(model, value)) return false;
  model.SetInfo(value, {.type = type, .has_shape = false, .shape = {}});
  return true;
}

}  // namespace

size_t NumInBlockedLayout(const Model& model) {
  const std::vector<Node> nodes = model.AllNodes();
  return static_cast<size_t>(std::ranges::count_if(
      nodes, [](const Node& node) { return node.domain() == kBlockedLayoutDomain; }));
}

size_t InferTypes(Model& model) {
  size_t num_described = 0;
  for (const Node& node : model.Nodes()) {
    const std::string& op = node.op_type();
    const bool is_product =
        node.domain().empty() && (op == "MatMul" || op == "Gemm") && node.num_inputs() > 1;
    if (is_product && model.IsInitializer(node.input(1))) {
      const DataType type = model.InfoOf(node.input(1)).type;
      for (const std::string& value : {node.input(0), node.output(0)}) {
        if (Describe(model, value, type)) ++num_described;
      }
    }
    // ONNX Runtime has SimplifiedLayerNormalization in the standard domain.
    const bool is_theirs = node.domain() == "com.microsoft" || op == "SimplifiedLayerNormalization";
    if (node.num_inputs() == 0 || node.num_outputs() == 0) continue;
    // Operators of the layout of a machine are all of this kind.
    if (node.domain() == kBlockedLayoutDomain) {
      if (Describe(model, node.output(0), model.InfoOf(node.input(0)).type)) ++num_described;
      continue;
    }
    if (!is_theirs) continue;
    for (const SameType& same : kSameType) {
      if (op != same.op_type) continue;
      const DataType type = model.InfoOf(node.input(0)).type;
      for (const size_t i : same.outputs) {
        if (i < node.num_outputs() && Describe(model, node.output(i), type)) ++num_described;
      }
    }
  }
  return num_described;
}

}  // namespace bitpress::rewrite
