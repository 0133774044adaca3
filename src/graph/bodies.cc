// The nodes inside the bodies of If, Loop and Scan.
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

}  // namespace

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
