// The order of what a model lists without one.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/clean_up.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

// Sorts the elements of a list by what `key` returns for them. They keep their addresses, which the
// index holds.
template <typename Field, typename Key>
void SortField(Field& field, const Key& key) {
  std::stable_sort(field.pointer_begin(), field.pointer_end(),
                   [&](const auto* a, const auto* b) { return key(*a) < key(*b); });
}

std::string_view NameOf(const auto& proto) { return proto.name(); }

// The place of each value in the order in which the nodes read them, those of a body in the place
// of the node that has it.
using FirstUses = std::unordered_map<std::string_view, size_t>;

// Sorts the attributes of the nodes, and returns the first uses that follow.
FirstUses SortAttributes(onnx::GraphProto& graph) {
  FirstUses uses;
  ForEachNode(*graph.mutable_node(), [&](onnx::NodeProto& node) {
    SortField(*node.mutable_attribute(), NameOf<onnx::AttributeProto>);
    for (const std::string& input : node.input()) uses.emplace(input, uses.size());
  });
  return uses;
}

void SortLists(const FirstUses& uses, onnx::GraphProto& graph) {
  const auto place = [&](std::string_view name) {
    const auto use = uses.find(name);
    return std::pair(use == uses.end() ? std::numeric_limits<size_t>::max() : use->second, name);
  };
  SortField(*graph.mutable_initializer(), [&](const auto& tensor) { return place(tensor.name()); });
  SortField(*graph.mutable_sparse_initializer(),
            [&](const auto& tensor) { return place(tensor.values().name()); });
  SortField(*graph.mutable_value_info(), NameOf<onnx::ValueInfoProto>);
}

}  // namespace

void PutInOrder(Model& model) {
  onnx::ModelProto& proto = ModelAccess::Impl(model).proto;
  SortField(*proto.mutable_opset_import(),
            [](const auto& import) -> std::string_view { return import.domain(); });
  SortField(*proto.mutable_metadata_props(),
            [](const auto& entry) -> std::string_view { return entry.key(); });
  SortField(*proto.mutable_functions(), [](const auto& function) {
    return std::pair<std::string_view, std::string_view>(function.domain(), function.name());
  });
  onnx::GraphProto& graph = *proto.mutable_graph();
  const FirstUses uses = SortAttributes(graph);
  SortLists(uses, graph);
  ForEachBody(*graph.mutable_node(), [&](onnx::GraphProto& body) { SortLists(uses, body); });
}

}  // namespace bitpress::graph
