#include "graph/widen_half.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/half_values.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

constexpr auto kHalf = static_cast<int32_t>(DataType::kFloat16);
constexpr auto kFloat = static_cast<int32_t>(DataType::kFloat);

void WidenBytes(std::span<const std::byte> halves, std::byte* floats) {
  for (size_t i = 0; i < halves.size() / sizeof(uint16_t); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, &halves[i * sizeof(half)], sizeof(half));
    const float value = WidenedHalf(half);
    std::memcpy(floats + i * sizeof(value), &value, sizeof(value));
  }
}

// Widens a tensor of an attribute or a body.
void WidenTensor(onnx::TensorProto& tensor) {
  if (tensor.data_type() != kHalf) return;
  std::string halves = tensor.raw_data();
  for (const int32_t bits : tensor.int32_data()) {
    halves += static_cast<char>(bits & 0xFF);
    halves += static_cast<char>(bits >> 8 & 0xFF);
  }
  std::string floats(2 * halves.size(), '\0');
  WidenBytes(std::as_bytes(std::span<const char>(halves)),
             reinterpret_cast<std::byte*>(floats.data()));
  tensor.clear_int32_data();
  tensor.set_raw_data(std::move(floats));
  tensor.set_data_type(kFloat);
}

void WidenType(onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type() || info.type().tensor_type().elem_type() != kHalf) return;
  info.mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
}

// Widens what the node itself says of types: `to` of Cast, `dtype` of generators, constants.
void WidenAttributes(onnx::NodeProto& node) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (IsTypeAttribute(attribute.name()) && attribute.i() == kHalf) attribute.set_i(kFloat);
    if (attribute.has_t()) WidenTensor(*attribute.mutable_t());
  }
}

void CastInput(Model& model, const std::string& name) {
  const std::vector<Use> uses = model.AllUses(name);
  if (uses.empty()) return;
  const std::string floats = model.FreshName(name + "_float");
  model.InsertNode(CastSpec(model, name, floats, DataType::kFloat), model.Nodes().front());
  for (Use use : uses) use.node.set_input(use.input_index, floats);
}

void CastOutput(Model& model, const std::string& name) {
  const std::string floats = model.FreshName(name + "_float");
  model.Rename(name, floats);
  model.InsertNode(CastSpec(model, floats, name, DataType::kFloat16), std::nullopt);
}

// Removes the Casts that do nothing any more.
void RemoveCasts(Model& model) {
  for (const Node& node : model.AllNodes()) {
    if (node.op_type() != "Cast" || !node.domain().empty() || node.GetInt("to", 0) != kFloat ||
        model.InfoOf(node.input(0)).type != DataType::kFloat || model.IsOutput(node.output(0))) {
      continue;
    }
    const std::string source = node.input(0);
    model.ReplaceAllUses(node.output(0), source);
    model.RemoveNode(node);
  }
}

}  // namespace

size_t WidenHalf(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  if (impl.proto.functions_size() > 0) return 0;
  const auto is_half = [&](const std::string& name) {
    return model.InfoOf(name).type == DataType::kFloat16;
  };
  std::vector<std::string> constants = model.InitializerNames();
  std::erase_if(constants, [&](const std::string& name) { return !is_half(name); });
  std::vector<std::string> inputs = model.InputNames();
  std::erase_if(inputs, [&](const std::string& name) { return !is_half(name); });
  std::vector<std::string> outputs = model.OutputNames();
  std::erase_if(outputs, [&](const std::string& name) { return !is_half(name); });
  const bool is_tied =
      std::ranges::any_of(constants,
                          [&](const std::string& name) {
                            return model.IsInput(name) || model.IsOutput(name) ||
                                   model.IsDeferred(name);
                          }) ||
      std::ranges::any_of(outputs, [&](const std::string& name) { return !model.Producer(name); });
  if (is_tied || constants.size() + inputs.size() + outputs.size() == 0) return 0;
  for (const std::string& name : constants) {
    ConvertInitializer(model, name, name, DataType::kFloat, WidenBytes);
  }
  auto& nodes = *impl.mutable_graph().mutable_node();
  ForEachNode(nodes, WidenAttributes);
  ForEachBody(nodes, [](onnx::GraphProto& body) {
    for (onnx::ValueInfoProto& info : *body.mutable_input()) WidenType(info);
    for (onnx::ValueInfoProto& info : *body.mutable_output()) WidenType(info);
    for (onnx::TensorProto& tensor : *body.mutable_initializer()) WidenTensor(tensor);
  });
  model.DropDescriptions();
  for (const std::string& name : inputs) CastInput(model, name);
  for (const std::string& name : outputs) CastOutput(model, name);
  model.InferShapes();
  RemoveCasts(model);
  return constants.size() + inputs.size() + outputs.size();
}

}  // namespace bitpress::graph
