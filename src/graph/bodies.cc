// The nodes inside the bodies of If, Loop and Scan.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

using Names = std::unordered_set<std::string_view>;

// Constants of the body added to those that are visible around it.
Names ConstantsInside(const onnx::GraphProto& body, Names outer) {
  for (const auto& input : body.input()) outer.erase(input.name());
  for (const auto& tensor : body.initializer()) outer.insert(tensor.name());
  for (const auto& node : body.node()) {
    const bool is_constant = node.op_type() == "Constant" && node.domain().empty();
    for (const auto& output : node.output()) {
      if (is_constant) {
        outer.insert(output);
      } else {
        outer.erase(output);
      }
    }
  }
  return outer;
}

template <typename Function>
void ForEachBodyNode(onnx::NodeProto& owner, const Names& constants, const Function& function) {
  const auto walk = [&](onnx::GraphProto& body) {
    const Names visible = ConstantsInside(body, constants);
    for (onnx::NodeProto& node : *body.mutable_node()) {
      function(node, visible);
      ForEachBodyNode(node, visible, function);
    }
  };
  for (auto& attribute : *owner.mutable_attribute()) {
    if (attribute.has_g()) walk(*attribute.mutable_g());
    for (onnx::GraphProto& body : *attribute.mutable_graphs()) walk(body);
  }
}

// Calls `function` for every body below the nodes.
template <typename Nodes, typename Function>
void ForEachBody(Nodes& nodes, const Function& function) {
  for (onnx::NodeProto& node : nodes) {
    const auto walk = [&](onnx::GraphProto& body) {
      function(body);
      ForEachBody(*body.mutable_node(), function);
    };
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) walk(*attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) walk(body);
    }
  }
}

bool IsConstant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && node.domain().empty();
}

bool HasInitializer(const onnx::GraphProto& body, const std::string& name) {
  return std::ranges::any_of(body.initializer(),
                             [&](const auto& tensor) { return tensor.name() == name; });
}

// What a body says of a value. Outputs may repeat a value that has other entries.
ValueInfo InfoIn(const onnx::GraphProto& body, const std::string& name) {
  for (const auto* list : {&body.input(), &body.value_info(), &body.output()}) {
    for (const onnx::ValueInfoProto& info : *list) {
      if (info.name() == name) return ToValueInfo(info.type());
    }
  }
  return {};
}

}  // namespace

std::vector<BodyValue> Model::BodyValues() const {
  std::vector<BodyValue> values;
  ForEachBody(*impl_->graph().mutable_node(), [&](onnx::GraphProto& body) {
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

size_t Model::InsertBehindBodyValues(const std::string& value, const NodeSpec& spec) {
  size_t count = 0;
  ForEachBody(*impl_->graph().mutable_node(), [&](onnx::GraphProto& body) {
    std::string* definition = nullptr;
    int position = 0;
    for (auto& input : *body.mutable_input()) {
      if (input.name() == value) definition = input.mutable_name();
    }
    for (int i = 0; definition == nullptr && i < body.node_size(); ++i) {
      for (std::string& output : *body.mutable_node(i)->mutable_output()) {
        if (output == value) definition = &output;
      }
      position = i + 1;
    }
    if (definition == nullptr) return;
    *definition = FreshName(value + "_before");
    impl_->subgraph_names.insert(*definition);
    NodeSpec inserted = spec;
    inserted.inputs = {*definition};
    inserted.outputs = {value};
    FillNode(inserted, *body.add_node());
    const auto nodes = body.mutable_node()->pointer_begin();
    std::rotate(nodes + position, nodes + body.node_size() - 1, nodes + body.node_size());
    ++count;
  });
  return count;
}

std::vector<BodyNode> Model::BodyNodes() const {
  Names constants;
  for (const auto& tensor : impl_->graph().initializer()) constants.insert(tensor.name());
  std::vector<BodyNode> found;
  for (onnx::NodeProto& owner : *impl_->graph().mutable_node()) {
    const auto add = [&](onnx::NodeProto& node, const Names& visible) {
      BodyNode body_node{Node(&node, impl_.get()), Node(&owner, impl_.get()), {}};
      for (const std::string& input : node.input()) {
        body_node.is_constant.push_back(visible.contains(input));
      }
      found.push_back(std::move(body_node));
    };
    ForEachBodyNode(owner, constants, add);
  }
  return found;
}

}  // namespace bitpress::graph
