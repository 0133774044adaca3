// The making of nodes and model-local functions from their descriptions.
#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

// The first release of the format with model-local functions.
constexpr int64_t kFirstIrVersionWithFunctions = 8;

onnx::AttributeProto::AttributeType ProtoType(AttributeReference::Type type) {
  switch (type) {
    case AttributeReference::Type::kInt:
      return onnx::AttributeProto::INT;
    case AttributeReference::Type::kFloat:
      return onnx::AttributeProto::FLOAT;
    case AttributeReference::Type::kString:
      return onnx::AttributeProto::STRING;
    case AttributeReference::Type::kInts:
      return onnx::AttributeProto::INTS;
    case AttributeReference::Type::kFloats:
      return onnx::AttributeProto::FLOATS;
  }
  return onnx::AttributeProto::UNDEFINED;
}

void SetAttribute(onnx::AttributeProto& proto, const Attribute& value) {
  struct Setter {
    onnx::AttributeProto& proto;
    void operator()(int64_t number) const {
      proto.set_type(onnx::AttributeProto::INT);
      proto.set_i(number);
    }
    void operator()(float number) const {
      proto.set_type(onnx::AttributeProto::FLOAT);
      proto.set_f(number);
    }
    void operator()(const std::string& text) const {
      proto.set_type(onnx::AttributeProto::STRING);
      proto.set_s(text);
    }
    void operator()(const std::vector<int64_t>& numbers) const {
      proto.set_type(onnx::AttributeProto::INTS);
      for (const int64_t number : numbers) proto.add_ints(number);
    }
    void operator()(const std::vector<float>& numbers) const {
      proto.set_type(onnx::AttributeProto::FLOATS);
      for (const float number : numbers) proto.add_floats(number);
    }
    void operator()(const Tensor& tensor) const {
      proto.set_type(onnx::AttributeProto::TENSOR);
      onnx::TensorProto& t = *proto.mutable_t();
      t.set_data_type(static_cast<int32_t>(tensor.type));
      for (const int64_t dim : tensor.dims) t.add_dims(dim);
      t.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
    }
    void operator()(const AttributeReference& reference) const {
      proto.set_type(ProtoType(reference.type));
      proto.set_ref_attr_name(reference.name);
    }
  };
  std::visit(Setter{proto}, value);
}

auto FindFunction(onnx::ModelProto& proto, std::string_view domain, std::string_view name) {
  auto& functions = *proto.mutable_functions();
  return std::find_if(functions.begin(), functions.end(), [&](const onnx::FunctionProto& function) {
    return function.domain() == domain && function.name() == name;
  });
}

}  // namespace

void FillNode(const NodeSpec& spec, onnx::NodeProto& proto) {
  BITPRESS_DCHECK(proto.op_type().empty() && proto.input().empty() && proto.output().empty());
  proto.set_name(spec.name);
  proto.set_op_type(spec.op_type);
  if (!spec.domain.empty()) proto.set_domain(spec.domain);
  for (const std::string& input : spec.inputs) proto.add_input(input);
  for (const std::string& output : spec.outputs) proto.add_output(output);
  for (const auto& [name, value] : spec.attributes) {
    onnx::AttributeProto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    SetAttribute(attribute, value);
  }
}

std::vector<std::pair<std::string, std::string>> Model::Functions() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& function : std::as_const(impl_->proto).functions()) {
    names.emplace_back(function.domain(), function.name());
  }
  return names;
}

bool Model::HasFunction(std::string_view domain, std::string_view name) const {
  return std::ranges::any_of(std::as_const(impl_->proto).functions(),
                             [&](const onnx::FunctionProto& function) {
                               return function.domain() == domain && function.name() == name;
                             });
}

void Model::SetFunction(const FunctionSpec& spec) {
  const std::map<std::string, int64_t> imports = OpsetImports();
  onnx::FunctionProto function;
  function.set_domain(spec.domain);
  function.set_name(spec.name);
  if (!spec.doc.empty()) function.set_doc_string(spec.doc);
  for (const std::string& input : spec.inputs) function.add_input(input);
  for (const std::string& output : spec.outputs) function.add_output(output);
  for (const std::string& attribute : spec.attributes) function.add_attribute(attribute);
  std::set<std::string> domains;
  for (const NodeSpec& node : spec.nodes) {
    FillNode(node, *function.add_node());
    domains.insert(node.domain);
  }
  for (const std::string& domain : domains) {
    const auto import = imports.find(domain);
    if (import == imports.end()) {
      Fail(ErrorCode::kInvalidArgument,
           "cannot add function '{}.{}': the model does not import the operator set '{}' that its "
           "body needs",
           spec.domain, spec.name, domain);
    }
    auto& entry = *function.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(import->second);
  }
  auto& proto = impl_->proto;
  proto.set_ir_version(std::max(proto.ir_version(), kFirstIrVersionWithFunctions));
  const auto found = FindFunction(proto, spec.domain, spec.name);
  (found == proto.mutable_functions()->end() ? *proto.add_functions() : *found).Swap(&function);
}

bool Model::RemoveFunction(std::string_view domain, std::string_view name) {
  const auto found = FindFunction(impl_->proto, domain, name);
  if (found == impl_->proto.mutable_functions()->end()) return false;
  impl_->proto.mutable_functions()->erase(found);
  return true;
}

}  // namespace bitpress::graph
