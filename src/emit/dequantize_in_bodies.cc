#include "emit/dequantize_in_bodies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/operator_traits.h"

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
  for (const auto& row : uses) {
    const graph::Use& use = row.second;
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

// Returns whether a scale and a zero point stand for all elements, so that they stay right where
// elements are moved.
bool HasOneScale(const graph::Model& model, const Node& dequantize) {
  return dequantize.num_inputs() == 3 && model.InfoOf(dequantize.input(1)).has_shape &&
         model.InfoOf(dequantize.input(1)).shape.empty();
}

// Puts a pair behind `value`, which holds moved elements of a dequantized value. The readers in
// bodies read the pair.
void InsertPair(graph::Model& model, const std::string& value, const Node& dequantize) {
  const std::optional<Node> behind = model.NodeBehind(value);
  const std::optional<Node> producer = model.Producer(value);
  const std::string codes = model.FreshName(value + "_codes");
  const std::string quantized = model.FreshName(value + "_quantized");
  const std::string& scale = dequantize.input(1);
  const std::string& zero_point = dequantize.input(2);
  const std::vector<graph::Use> uses = model.AllUses(value);
  model.InsertNode({model.FreshNodeName(codes + "_quantize"),
                    "QuantizeLinear",
                    "",
                    {value, scale, zero_point},
                    {codes},
                    {}},
                   behind, producer);
  model.InsertNode({model.FreshNodeName(quantized + "_dequantize"),
                    "DequantizeLinear",
                    "",
                    {codes, scale, zero_point},
                    {quantized},
                    {}},
                   behind, producer);
  for (graph::Use use : uses) {
    if (!model.AreInOneGraph(use.node, *producer)) use.node.set_input(use.input_index, quantized);
  }
}

// Makes codes of what bodies read of moved elements. Returns whether anything changed.
bool QuantizeMoved(graph::Model& model) {
  bool is_modified = false;
  std::map<std::string, Node> dequantized;  // the DequantizeLinear that a value's elements are from
  for (const Node& node : model.AllNodes()) {
    if (IsDequantize(node) && HasOneScale(model, node)) dequantized.emplace(node.output(0), node);
  }
  for (const Node& node : model.AllNodes()) {
    if (!ops::MovesElements(node) || node.num_inputs() == 0) continue;
    const auto source = dequantized.find(node.input(0));
    if (source == dequantized.end()) continue;
    const Node from = source->second;
    dequantized.emplace(node.output(0), from);
    if (!model.IsUsedInSubgraph(node.output(0))) continue;
    InsertPair(model, node.output(0), from);
    is_modified = true;
  }
  return is_modified;
}

}  // namespace

bool DequantizeInBodies(graph::Model& model) {
  bool is_modified = QuantizeMoved(model);
  const std::vector<Node> order = model.AllNodes();
  for (const Node& node : order) {
    if (!IsDequantize(node)) continue;
    const std::string value = node.output(0);
    if (!model.IsUsedInSubgraph(value)) continue;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.input(i));
    for (Readers& body : ReadersInBodies(model, node, order)) {
      const std::string copy = model.FreshName(value + "_quantized");
      graph::NodeSpec spec{
          model.FreshNodeName(copy + "_dequantize"), node.op_type(), "", inputs, {copy}, {}};
      spec.attributes_of = node;
      model.InsertNode(spec, body.first);
      for (graph::Use& use : body.uses) use.node.set_input(use.input_index, copy);
    }
    is_modified = true;
    if (!model.IsRead(value)) model.RemoveNode(node);
  }
  return is_modified;
}

}  // namespace bitpress::emit
