#include "gradients/separate_sums.h"

#include <string>
#include <utility>
#include <vector>

namespace bitpress::gradients {
namespace {

using graph::Node;

std::string InputOf(const Node& node, size_t i) {
  return i < node.num_inputs() ? node.input(i) : std::string();
}
std::string OutputOf(const Node& node, size_t i) {
  return i < node.num_outputs() ? node.output(i) : std::string();
}

}  // namespace

void SeparateSums(graph::Model& model) {
  for (const Node& node : model.Nodes()) {
    const bool is_simplified = node.op_type() == "SkipSimplifiedLayerNormalization";
    if (!is_simplified && node.op_type() != "SkipLayerNormalization") continue;
    if (!OutputOf(node, 1).empty() || !OutputOf(node, 2).empty()) continue;
    // The inputs are x, what is added, the factors, then what the norm adds, then a bias of the
    // sum.
    const std::string bias = InputOf(node, is_simplified ? 3 : 4);
    const std::string shift = is_simplified ? "" : InputOf(node, 3);
    std::string sum = OutputOf(node, 3);
    if (sum.empty()) sum = model.FreshName(node.output(0) + "_sum");
    std::vector<std::string> normed{sum, node.input(2)};
    if (!shift.empty()) normed.push_back(shift);
    const auto add = [&](const std::string& a, const std::string& b, const std::string& to) {
      model.InsertNode({model.FreshNodeName(node.name() + "_sum"), "Add", "", {a, b}, {to}, {}},
                       node);
    };
    const std::string output = node.output(0);
    const graph::ValueInfo info = model.InfoOf(node.input(0));
    model.Replace({node}, [&] {
      const std::string first = bias.empty() ? sum : model.FreshName(sum + "_without_bias");
      add(node.input(0), node.input(1), first);
      if (!bias.empty()) add(first, bias, sum);
      model.InsertNode({node.name(),
                        is_simplified ? "SimplifiedLayerNormalization" : "LayerNormalization",
                        "",
                        std::move(normed),
                        {output},
                        {{"axis", int64_t{-1}}, {"epsilon", node.GetFloat("epsilon", 1e-12F)}}},
                       node);
    });
    if (info.type != DataType::kUndefined && model.InfoOf(sum).type == DataType::kUndefined) {
      model.SetInfo(sum, info);
    }
  }
}

}  // namespace bitpress::gradients
