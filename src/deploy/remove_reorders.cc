#include "deploy/remove_reorders.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::deploy {
namespace {

using graph::Model;
using graph::Node;

// Returns whether a node quantizes each element alone, and 0 to 0.
bool IsElementwiseQuantizer(const Node& node) {
  constexpr std::string_view kPrefix = "QuantizeDequantize_";
  if (node.domain() != "bitpress" || !node.op_type().starts_with(kPrefix)) return false;
  if (node.num_inputs() != 1 || node.num_outputs() != 1) return false;
  const std::string_view name = std::string_view(node.op_type()).substr(kPrefix.size());
  const auto rows = formats::AllFormats();
  const auto row = std::ranges::find(rows, name, &formats::FormatSpec::name);
  return row != rows.end() && row->is_float();
}

bool IsReorder(const Node& node, std::string_view op_type) {
  return node.domain() == "com.microsoft.nchwc" && node.op_type() == op_type &&
         node.num_inputs() == 1 && node.num_outputs() == 1;
}

// Returns whether a reorder is between NCHW and NCHWc.
bool IsChannelsFirst(const Node& reorder) { return reorder.GetInt("channels_last", 0) == 0; }

bool IsReadOutsideNodes(const Model& model, const std::string& value) {
  return model.IsOutput(value) || model.IsUsedInSubgraph(value);
}

std::optional<Node> ReorderBefore(const Model& model, const Node& quantizer) {
  const std::optional<Node> producer = model.Producer(quantizer.input(0));
  return producer && IsReorder(*producer, "ReorderOutput") ? producer : std::nullopt;
}

// Returns the nodes that read the quantizer's result, if all of them bring it back into the blocked
// layout and nothing else reads it. Returns nothing otherwise.
std::vector<Node> ReordersBehind(const Model& model, const Node& quantizer) {
  const std::string& value = quantizer.output(0);
  if (IsReadOutsideNodes(model, value)) return {};
  std::vector<Node> reorders;
  for (const graph::Use& use : model.Uses(value)) {
    if (!IsReorder(use.node, "ReorderInput") || !IsChannelsFirst(use.node) ||
        IsReadOutsideNodes(model, use.node.output(0))) {
      return {};
    }
    reorders.push_back(use.node);
  }
  return reorders;
}

// Connects a quantizer to the blocked layout and removes the reorders that this makes unused.
// Returns their number.
size_t Bypass(Model& model, Node quantizer, Node before, const std::vector<Node>& behind) {
  // The value gets a new name, because the model may hold a shape for the old one.
  const std::string blocked = model.FreshName(quantizer.output(0) + "_nchwc");
  size_t num_removed = behind.size();
  for (const Node& reorder : behind) {
    for (graph::Use use : model.Uses(reorder.output(0))) {
      use.node.set_input(use.input_index, blocked);
    }
    model.RemoveNode(reorder);
  }
  quantizer.set_output(0, blocked);
  quantizer.set_input(0, before.input(0));
  const std::string& plain = before.output(0);
  if (model.Uses(plain).empty() && !IsReadOutsideNodes(model, plain)) {
    model.RemoveNode(before);
    ++num_removed;
  }
  return num_removed;
}

}  // namespace

RemovedReorders RemoveReorders(Model& model) {
  std::vector<Node> quantizers;
  for (const Node& node : model.Nodes()) {
    if (ops::IsQuantizer(node) && node.num_inputs() > 0) quantizers.push_back(node);
  }
  RemovedReorders report;
  for (const Node& quantizer : quantizers) {
    const std::optional<Node> before = ReorderBefore(model, quantizer);
    if (!before) continue;
    std::vector<Node> behind;
    if (IsElementwiseQuantizer(quantizer) && IsChannelsFirst(*before)) {
      behind = ReordersBehind(model, quantizer);
    }
    if (behind.empty()) {
      ++report.num_left;
      continue;
    }
    report.num_removed += Bypass(model, quantizer, *before, behind);
    ++report.num_quantizers;
  }
  return report;
}

void NameReorders(Model& model) {
  for (Node node : model.Nodes()) {
    if (!IsReorder(node, "ReorderOutput") && !IsReorder(node, "ReorderInput")) continue;
    const std::string value = node.output(0);
    graph::NodeSpec spec{value + "_reorder", node.op_type(), node.domain(),
                         {node.input(0)},    {value},        {}};
    for (const char* attribute : {"channels", "channels_last"}) {
      if (node.HasAttribute(attribute)) {
        spec.attributes.emplace_back(attribute, node.GetInt(attribute, 0));
      }
    }
    // No two nodes may give the same value, so the old node's output is renamed first.
    node.set_output(0, model.FreshName(value + "_renamed"));
    model.InsertNode(spec, node);
    model.RemoveNode(node);
  }
}

}  // namespace bitpress::deploy
