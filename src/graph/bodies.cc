// The index of the bodies of If, Loop and Scan: their nodes and values beside those of the main
// graph.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

bool IsConstant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && node.domain().empty();
}

bool HasInitializer(const onnx::GraphProto& body, const std::string& name) {
  return std::ranges::any_of(body.initializer(),
                             [&](const auto& tensor) { return tensor.name() == name; });
}

// Returns the description of a value in a body. Outputs may repeat a value that has other entries.
ValueInfo InfoIn(const onnx::GraphProto& body, const std::string& name) {
  for (const auto* list : {&body.input(), &body.value_info(), &body.output()}) {
    for (const onnx::ValueInfoProto& info : *list) {
      if (info.name() == name) return ToValueInfo(info.type());
    }
  }
  return {};
}

using Names = std::unordered_set<std::string>;
using NewNames = std::map<std::string, std::string, std::less<>>;

// Gives the values of a body their new names, including the values that bodies inside it read.
void Rename(onnx::GraphProto& body, const NewNames& names) {
  const auto rename = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (auto* list : {body.mutable_input(), body.mutable_output(), body.mutable_value_info()}) {
    for (auto& info : *list) rename(*info.mutable_name());
  }
  for (auto& tensor : *body.mutable_initializer()) rename(*tensor.mutable_name());
  for (auto& tensor : *body.mutable_sparse_initializer()) {
    rename(*tensor.mutable_values()->mutable_name());
  }
  for (onnx::NodeProto& node : *body.mutable_node()) {
    for (std::string& input : *node.mutable_input()) rename(input);
    for (std::string& output : *node.mutable_output()) rename(output);
    ForEachOwnBody(node, [&](onnx::GraphProto& inner) {
      // A value that the body itself defines hides one of the same name around it.
      NewNames visible = names;
      ForEachDefinition(inner, [&](const std::string& name) { visible.erase(name); });
      if (!visible.empty()) Rename(inner, visible);
    });
  }
}

class UniqueNames {
 public:
  explicit UniqueNames(const onnx::GraphProto& graph) {
    ForEachDefinition(graph, [&](const std::string& name) { taken_.insert(name); });
    all_ = taken_;
    ForEachBody(graph.node(), [&](const onnx::GraphProto& body) {
      ForEachDefinition(body, [&](const std::string& name) { all_.insert(name); });
    });
  }

  void Give(onnx::GraphProto& body) {
    NewNames names;
    ForEachDefinition(body, [&](const std::string& name) {
      if (taken_.contains(name) && !names.contains(name)) names.emplace(name, Fresh(name));
    });
    if (!names.empty()) Rename(body, names);
    ForEachDefinition(body, [&](const std::string& name) { taken_.insert(name); });
    for (onnx::NodeProto& node : *body.mutable_node()) {
      ForEachOwnBody(node, [&](onnx::GraphProto& inner) { Give(inner); });
    }
  }

 private:
  std::string Fresh(const std::string& name) {
    // A name may be repeated in many bodies. Each time the search goes on from the last number.
    for (size_t& suffix = last_suffix_[name];;) {
      std::string fresh = fmt::format("{}_{}", name, ++suffix);
      if (all_.insert(fresh).second) return fresh;
    }
  }

  Names taken_;  // names of the values so far
  Names all_;    // names of the whole model
  std::unordered_map<std::string, size_t> last_suffix_;
};

}  // namespace

void MakeNamesUnique(onnx::GraphProto& graph) {
  UniqueNames names(graph);
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    ForEachOwnBody(node, [&](onnx::GraphProto& body) { names.Give(body); });
  }
}

std::vector<Node> Model::AllNodes() const {
  std::vector<Node> nodes;
  const auto add = [&](const auto& self, const auto& list) -> void {
    for (const onnx::NodeProto& node : list) {
      ForEachOwnBody(node, [&](const onnx::GraphProto& body) { self(self, body.node()); });
      nodes.push_back(Node(const_cast<onnx::NodeProto*>(&node), impl_.get()));
    }
  };
  add(add, impl_->graph().node());
  return nodes;
}

std::optional<Node> Model::Owner(const Node& node) const {
  const auto found = impl_->body_nodes.find(node.proto_);
  if (found == impl_->body_nodes.end()) return std::nullopt;
  return Node(found->second.owner, impl_.get());
}

bool Model::AreInOneGraph(const Node& a, const Node& b) const {
  return impl_->BodyOf(a.proto_) == impl_->BodyOf(b.proto_);
}

std::vector<BodyValue> Model::BodyValues() const {
  std::vector<BodyValue> values;
  ForEachBody(impl_->graph().node(), [&](const onnx::GraphProto& body) {
    const auto add = [&](const std::string& name) {
      if (!name.empty()) values.push_back({name, InfoIn(body, name)});
    };
    for (const auto& input : body.input()) {
      if (!HasInitializer(body, input.name())) add(input.name());
    }
    for (const onnx::NodeProto& node : body.node()) {
      if (IsConstant(node)) continue;
      for (const std::string& output : node.output()) add(output);
    }
  });
  return values;
}

bool Model::InsertBehindBodyValue(const std::string& value, const NodeSpec& spec) {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr || entry->body == nullptr) return false;
  onnx::GraphProto& body = *entry->body;
  onnx::NodeProto* const producer = entry->producer;
  NodeSpec inserted = spec;
  inserted.inputs = {FreshName(value + "_before")};
  inserted.outputs = {value};
  const std::optional<Node> next = NodeBehind(value);
  if (producer != nullptr) {
    Node node(producer, impl_.get());
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) == value) node.set_output(i, inserted.inputs[0]);
    }
    InsertNode(inserted, next, node);
    return true;
  }
  for (auto& input : *body.mutable_input()) {
    if (input.name() == value) input.set_name(inserted.inputs[0]);
  }
  ValueEntry& renamed = impl_->At(inserted.inputs[0]);
  ValueEntry& old = impl_->At(value);
  old.is_body_input = false;
  renamed.is_body_input = true;
  renamed.body = &body;
  std::swap(renamed.input_info, old.input_info);
  InsertNode(inserted, next);
  return true;
}

}  // namespace bitpress::graph
