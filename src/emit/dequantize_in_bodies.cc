#include "emit/dequantize_in_bodies.h"

#include <algorithm>
#include <string>
#include <vector>

namespace bitpress::emit {
namespace {

using graph::Node;

// The readers of a value in one body.
struct Readers {
  Node first;
  std::vector<graph::Use> uses;
};

bool IsDequantize(const Node& node) {
  return node.domain().empty() && node.op_type() == "DequantizeLinear";
}

// Returns the uses of a node's output in graphs other than its own, by graph, in the order of the
// nodes.
std::vector<Readers> ReadersInBodies(const graph::Model& model, const Node& node,
                                     const std::vector<Node>& order) {
  std::vector<std::pair<size_t, graph::Use>> uses;
  for (const graph::Use& use : model.AllUses(node.output(0))) {
    if (model.AreInOneGraph(use.node, node)) continue;
    uses.emplace_back(std::ranges::find(order, use.node) - order.begin(), use);
  }
  std::ranges::stable_sort(uses, {}, [](const auto& use) { return use.first; });
  std::vector<Readers> readers;
  for (const auto& [position, use] : uses) {
    const auto known = std::ranges::find_if(
        readers, [&](const Readers& body) { return model.AreInOneGraph(body.first, use.node); });
    if (known == readers.end()) {
      readers.push_back({use.node, {use}});
    } else {
      known->uses.push_back(use);
    }
  }
  return readers;
}

}  // namespace

bool DequantizeInBodies(graph::Model& model) {
  bool is_modified = false;
  const std::vector<Node> order = model.AllNodes();
  for (const Node& node : order) {
    if (!IsDequantize(node)) continue;
    const std::string value = node.output(0);
    if (!model.IsUsedInSubgraph(value)) continue;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.input(i));
    for (Readers& body : ReadersInBodies(model, node, order)) {
      const std::string copy = model.FreshName(value + "_quantized");
      graph::NodeSpec spec{copy + "_dequantize", node.op_type(), "", inputs, {copy}, {}};
      spec.attributes_of = node;
      model.InsertNode(spec, body.first);
      for (graph::Use& use : body.uses) use.node.set_input(use.input_index, copy);
    }
    is_modified = true;
    if (model.AllUses(value).empty() && !model.IsOutput(value)) model.RemoveNode(node);
  }
  return is_modified;
}

}  // namespace bitpress::emit
