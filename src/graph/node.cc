#include <algorithm>

#include "base/error.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

// Returns the attribute, or null if the node does not have it. Throws if it has another type.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name,
                                          onnx::AttributeProto::AttributeType type) {
  const auto* attribute = FindAttribute(node, name);
  if (attribute != nullptr && attribute->type() != type) {
    Fail(ErrorCode::kInvalidModel, "{}: attribute '{}' is of type {}, expected {}",
         DescribeNode(node), name, onnx::AttributeProto::AttributeType_Name(attribute->type()),
         onnx::AttributeProto::AttributeType_Name(type));
  }
  return attribute;
}

[[noreturn]] void FailRemoved(const Node& node) {
  Fail(ErrorCode::kInvalidArgument, "{} is removed and cannot be changed", node.Describe());
}

[[noreturn]] void FailTooFew(const Node& node, const char* what, size_t found, size_t index) {
  Fail(ErrorCode::kInvalidModel, "{} has {} {}, expected at least {}", node.Describe(), found, what,
       index + 1);
}

}  // namespace

std::string DescribeNode(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("{} '{}'", node.op_type(), node.name());
  for (const std::string& output : node.output()) {
    if (!output.empty()) return fmt::format("{} (output '{}')", node.op_type(), output);
  }
  return node.op_type();
}

const std::string& Node::name() const { return proto_->name(); }
const std::string& Node::op_type() const { return proto_->op_type(); }
const std::string& Node::domain() const { return proto_->domain(); }
size_t Node::num_inputs() const { return static_cast<size_t>(proto_->input_size()); }
size_t Node::num_outputs() const { return static_cast<size_t>(proto_->output_size()); }

// ONNX's checker does not count the inputs and outputs of operators that it does not know.
const std::string& Node::input(size_t i) const {
  if (i >= num_inputs()) FailTooFew(*this, "inputs", num_inputs(), i);
  return proto_->input(static_cast<int>(i));
}

const std::string& Node::output(size_t i) const {
  if (i >= num_outputs()) FailTooFew(*this, "outputs", num_outputs(), i);
  return proto_->output(static_cast<int>(i));
}

void Node::set_input(size_t i, const std::string& value) {
  if (i >= num_inputs()) {
    Fail(ErrorCode::kInvalidArgument, "{} has {} inputs, so input {} cannot be set", Describe(),
         num_inputs(), i);
  }
  // The caller may pass a name that lies in the index or in this node.
  const std::string now = value;
  std::string& slot = *proto_->mutable_input(static_cast<int>(i));
  if (slot == now) return;
  if (!slot.empty()) {
    std::erase_if(model_->At(slot).uses,
                  [&](const ValueUse& use) { return use.node == proto_ && use.input_index == i; });
    model_->DropIfUnknown(slot);
  }
  slot = now;
  if (!now.empty()) model_->At(now).uses.push_back({proto_, i});
}

void Node::set_output(size_t i, const std::string& value) {
  const std::string now = value;
  if (i >= num_outputs()) {
    Fail(ErrorCode::kInvalidArgument, "{} has {} outputs, so output {} cannot be set", Describe(),
         num_outputs(), i);
  }
  std::string& slot = *proto_->mutable_output(static_cast<int>(i));
  if (slot == now) return;
  const ValueEntry* const taken = model_->Find(now);
  if (now.empty() || (taken != nullptr && taken->IsDefined())) {
    Fail(ErrorCode::kInvalidArgument, "{} cannot produce '{}': {}", Describe(), now,
         now.empty() ? "the name is empty" : "the value exists already");
  }
  if (!slot.empty()) {
    if (model_->At(slot).producer != proto_) FailRemoved(*this);
    model_->At(slot).producer = nullptr;
    model_->DropIfUnknown(slot);
  }
  slot = now;
  ValueEntry& entry = model_->At(now);
  entry.producer = proto_;
  entry.body = model_->BodyOf(proto_);
}

bool Node::HasAttribute(std::string_view name) const {
  return FindAttribute(*proto_, name) != nullptr;
}

std::vector<std::string> Node::AttributeNames() const {
  std::vector<std::string> names;
  for (const onnx::AttributeProto& attribute : proto_->attribute()) {
    names.push_back(attribute.name());
  }
  return names;
}

void Node::RemoveAttribute(std::string_view name) {
  auto& attributes = *proto_->mutable_attribute();
  const auto found = std::ranges::find(attributes, name, &onnx::AttributeProto::name);
  if (found != attributes.end()) attributes.erase(found);
}

int64_t Node::GetInt(std::string_view name, int64_t fallback) const {
  const auto* attribute = FindAttribute(*proto_, name, onnx::AttributeProto::INT);
  return attribute == nullptr ? fallback : attribute->i();
}

float Node::GetFloat(std::string_view name, float fallback) const {
  const auto* attribute = FindAttribute(*proto_, name, onnx::AttributeProto::FLOAT);
  return attribute == nullptr ? fallback : attribute->f();
}

std::string Node::GetString(std::string_view name, std::string fallback) const {
  const auto* attribute = FindAttribute(*proto_, name, onnx::AttributeProto::STRING);
  return attribute == nullptr ? fallback : attribute->s();
}

std::vector<int64_t> Node::GetInts(std::string_view name) const {
  const auto* attribute = FindAttribute(*proto_, name, onnx::AttributeProto::INTS);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

bool Node::HasSubgraph() const {
  return std::ranges::any_of(proto_->attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

std::string Node::Describe() const { return DescribeNode(*proto_); }

}  // namespace bitpress::graph
