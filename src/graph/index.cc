// The index of the producers and readers of values.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {

const ValueEntry* ModelImpl::Find(std::string_view value) const {
  const auto found = values.find(value);
  return found == values.end() ? nullptr : &found->second;
}

void ModelImpl::AdoptInitializer(onnx::TensorProto& tensor, ExternalDataReader* reader) {
  BITPRESS_DCHECK(!IsExternal(tensor) || reader != nullptr);
  ValueEntry& entry = At(tensor.name());
  if (entry.initializer != nullptr) {
    Fail(ErrorCode::kInvalidModel, "two initializers are named '{}'", tensor.name());
  }
  entry.initializer = &tensor;
  if (IsExternal(tensor)) {
    TensorStorage storage = reader->Read(tensor);
    tensor.clear_external_data();
    tensor.clear_data_location();
    PlaceData(entry, std::move(storage));
    return;
  }
  CheckTensorData(tensor);
  MoveToRawData(tensor);
  if (tensor.raw_data().size() > kKeepInMessage) {
    const std::shared_ptr<const std::string> owner(tensor.release_raw_data());
    PlaceData(entry, {owner, std::as_bytes(std::span<const char>(*owner))});
  } else {
    entry.storage.bytes = std::as_bytes(std::span<const char>(tensor.raw_data()));
  }
}

ValueEntry& ModelImpl::ResetInitializer(const std::string& name, DataType type,
                                        std::span<const int64_t> dims) {
  const ValueEntry* const found = Find(name);
  const bool is_taken = found != nullptr && found->initializer == nullptr && found->IsDefined();
  if (name.empty() || is_taken || ElementBits(type) == 0) {
    Fail(ErrorCode::kInvalidArgument, "cannot set initializer '{}': {}", name,
         name.empty() ? "it needs a name"
         : is_taken   ? "the name is that of an input or of a node's output"
                      : fmt::format("{} is no type of numbers", DataTypeName(type)));
  }
  ValueEntry& entry = At(name);
  // An input with a default value becomes a constant. Its declared type may no longer fit.
  if (entry.is_graph_input) RemoveGraphInput(name);
  if (entry.initializer == nullptr) {
    entry.initializer = mutable_graph().add_initializer();
  } else {
    entry.initializer->Clear();
  }
  onnx::TensorProto& tensor = *entry.initializer;
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int32_t>(type));
  for (const int64_t dim : dims) tensor.add_dims(dim);
  entry.storage = {};
  entry.deferred = nullptr;
  return entry;
}

void ModelImpl::MakeStub(onnx::TensorProto& tensor) {
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* const location = tensor.add_external_data();
  location->set_key("location");
  location->set_value(kStubLocation);
}

void ModelImpl::PlaceData(ValueEntry& entry, TensorStorage storage) {
  onnx::TensorProto& tensor = *entry.initializer;
  if (storage.bytes.size() <= kKeepInMessage) {
    tensor.set_raw_data(storage.bytes.data(), storage.bytes.size());
    entry.storage = {nullptr, std::as_bytes(std::span<const char>(tensor.raw_data()))};
    return;
  }
  MakeStub(tensor);
  entry.storage = std::move(storage);
}

BodyPlace ModelImpl::PlaceOf(const onnx::NodeProto* node) const {
  const auto found = body_nodes.find(node);
  return found == body_nodes.end() ? BodyPlace{} : found->second;
}

void ModelImpl::IndexNode(onnx::NodeProto& node, const BodyPlace& place) {
  if (place.graph != nullptr) body_nodes[&node] = place;
  ++node_names[node.name()];
  size_t index = 0;
  for (const std::string& input : node.input()) {
    if (!input.empty()) At(input).uses.push_back({&node, index});
    ++index;
  }
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    ValueEntry& entry = At(output);
    entry.producer = &node;
    entry.body = place.graph;
  }
  ForEachOwnBody(node, [&](onnx::GraphProto& body) { IndexBody(body, node); });
}

void ModelImpl::UnindexNode(onnx::NodeProto& node) {
  ForEachOwnBody(node, [&](onnx::GraphProto& body) { UnindexBody(body); });
  body_nodes.erase(&node);
  if (--node_names[node.name()] == 0) node_names.erase(node.name());
  for (const std::string& input : node.input()) {
    if (input.empty()) continue;
    std::erase_if(At(input).uses, [&](const ValueUse& use) { return use.node == &node; });
    DropIfUnknown(input);
  }
  ReleaseOutputs(node);
}

void ModelImpl::ReleaseOutputs(const onnx::NodeProto& node) {
  for (const std::string& output : node.output()) {
    const auto found = values.find(output);
    if (found == values.end() || found->second.producer != &node) continue;
    found->second.producer = nullptr;
    DropIfUnknown(output);
  }
}

void ModelImpl::IndexBody(onnx::GraphProto& body, onnx::NodeProto& owner) {
  const auto define = [&](const std::string& name) -> ValueEntry& {
    ValueEntry& entry = At(name);
    entry.body = &body;
    return entry;
  };
  for (const auto& input : body.input()) define(input.name()).is_body_input = true;
  for (const auto& tensor : body.initializer()) define(tensor.name()).is_body_initializer = true;
  for (const auto& tensor : body.sparse_initializer()) {
    define(tensor.values().name()).is_body_initializer = true;
  }
  for (onnx::NodeProto& node : *body.mutable_node()) IndexNode(node, {&body, &owner});
  IndexListsOf(body, &body);
}

void ModelImpl::UnindexBody(onnx::GraphProto& body) {
  // Values are dropped once nothing in the body reads them any more.
  ForEachDefinition(body, [&](const std::string& name) {
    ValueEntry& entry = At(name);
    entry.is_body_input = entry.is_body_initializer = false;
  });
  UnindexListsOf(body);
  for (onnx::NodeProto& node : *body.mutable_node()) UnindexNode(node);
  ForEachDefinition(body, [&](const std::string& name) { DropIfUnknown(name); });
  for (const auto& info : body.value_info()) DropIfUnknown(info.name());
}

void ModelImpl::DropIfUnknown(std::string_view value) {
  const auto found = values.find(value);
  if (found == values.end()) return;
  // A value that only value_info describes stays known, because an inserted node may define it
  // again.
  const ValueEntry& entry = found->second;
  if (!entry.IsDefined() && !entry.IsRead() && entry.info() == nullptr) values.erase(found);
}

void ModelImpl::IndexGraph() {
  for (const auto& tensor : graph().sparse_initializer()) {
    At(tensor.values().name()).is_sparse_initializer = true;
  }
  for (onnx::NodeProto& node : *mutable_graph().mutable_node()) IndexNode(node, {});
  IndexInfo();
}

void ModelImpl::IndexInfo() {
  ++num_info_indexings;
  for (auto& [name, entry] : values) {
    entry.is_graph_input = false;
    entry.num_outputs = 0;
    entry.input_info = entry.output_info = entry.listed_info = nullptr;
  }
  IndexListsOf(mutable_graph(), nullptr);
  for (const auto& info : graph().input()) At(info.name()).is_graph_input = true;
  ForEachBody(*mutable_graph().mutable_node(),
              [&](onnx::GraphProto& body) { IndexListsOf(body, &body); });
}

void ModelImpl::IndexListsOf(onnx::GraphProto& graph, onnx::GraphProto* body) {
  for (auto& info : *graph.mutable_value_info()) {
    ValueEntry& entry = At(info.name());
    // The entry of another graph counts only as long as the value's own graph has none.
    if (entry.listed_info != nullptr && entry.body != body) continue;
    entry.listed_info = &info;
    entry.listed_in = body;
  }
  for (const auto& info : graph.output()) {
    ValueEntry& entry = At(info.name());
    ++entry.num_outputs;
    if (info.has_type()) entry.output_info = &info;
  }
  for (const auto& info : graph.input()) At(info.name()).input_info = &info;
}

void ModelImpl::UnindexListsOf(onnx::GraphProto& graph) {
  for (const auto& info : graph.value_info()) {
    ValueEntry& entry = At(info.name());
    if (entry.listed_info == &info) entry.listed_info = nullptr;
  }
  for (const auto& info : graph.output()) {
    ValueEntry& entry = At(info.name());
    --entry.num_outputs;
    if (entry.output_info == &info) entry.output_info = nullptr;
  }
  for (const auto& info : graph.input()) {
    ValueEntry& entry = At(info.name());
    if (entry.input_info == &info) entry.input_info = nullptr;
  }
}

onnx::ValueInfoProto& ModelImpl::ListedInfo(const std::string& value) {
  ValueEntry& entry = At(value);
  if (entry.listed_info == nullptr || entry.listed_in != entry.body) {
    onnx::GraphProto& graph = entry.body == nullptr ? mutable_graph() : *entry.body;
    entry.listed_info = graph.add_value_info();
    entry.listed_info->set_name(value);
    entry.listed_in = entry.body;
  }
  return *entry.listed_info;
}

void ModelImpl::RemoveGraphInput(std::string_view name) {
  ValueEntry& entry = At(name);
  auto& inputs = *mutable_graph().mutable_input();
  const auto elements = inputs.pointer_begin();
  const auto found = std::find(elements, elements + inputs.size(), entry.input_info);
  if (found == elements + inputs.size()) return;
  inputs.DeleteSubrange(static_cast<int>(found - elements), 1);
  entry.input_info = nullptr;
  entry.is_graph_input = false;
}

void ModelImpl::RemoveNodes(onnx::GraphProto& graph,
                            const std::unordered_set<const onnx::NodeProto*>& removed) {
  auto& nodes = *graph.mutable_node();
  // Node handles are pointers, so that the nodes that stay must not be copied.
  const auto elements = nodes.pointer_begin();
  std::stable_partition(elements, elements + nodes.size(),
                        [&](const onnx::NodeProto* node) { return !removed.contains(node); });
  const auto num_removed = static_cast<int>(removed.size());
  nodes.DeleteSubrange(nodes.size() - num_removed, num_removed);
}

}  // namespace bitpress::graph
