#include "graph/clean_up.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

bool IsDead(const ModelImpl& impl, const onnx::NodeProto& node) {
  if (node.output().empty()) return false;
  return std::ranges::none_of(node.output(), [&](const std::string& output) {
    const ValueEntry* const entry = impl.Find(output);
    return entry != nullptr && entry->IsRead();
  });
}

// Removes the elements for which `is_unused` holds; returns their number.
template <typename Field, typename Predicate>
size_t RemoveIf(Field& field, const Predicate& is_unused) {
  const auto end = std::remove_if(field.begin(), field.end(), is_unused);
  const auto num_removed = static_cast<size_t>(field.end() - end);
  field.erase(end, field.end());
  return num_removed;
}

size_t RemoveDeadNodes(ModelImpl& impl) {
  auto& nodes = *impl.graph().mutable_node();
  std::unordered_set<const onnx::NodeProto*> dead;
  // Backwards: what only dead nodes read is dead too.
  for (int i = nodes.size() - 1; i >= 0; --i) {
    onnx::NodeProto& node = *nodes.Mutable(i);
    if (!IsDead(impl, node)) continue;
    dead.insert(&node);
    impl.UnindexNode(node);
  }
  impl.RemoveNodes(dead);
  return dead.size();
}

size_t RemoveUnusedInitializers(Model& model) {
  const ModelImpl& impl = ModelAccess::Impl(model);
  size_t num_removed = 0;
  for (const std::string& name : model.InitializerNames()) {
    if (impl.Find(name)->IsRead()) continue;
    model.RemoveInitializer(name);
    ++num_removed;
  }
  return num_removed;
}

void CollectDomains(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                    std::set<std::string>& domains) {
  for (const auto& node : nodes) {
    domains.insert(node.domain());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) CollectDomains(attribute.g().node(), domains);
      for (const auto& body : attribute.graphs()) CollectDomains(body.node(), domains);
    }
  }
}

size_t RemoveUnusedImports(onnx::ModelProto& proto) {
  std::set<std::string> domains{""};
  CollectDomains(proto.graph().node(), domains);
  for (const auto& function : proto.functions()) {
    domains.insert(function.domain());
    CollectDomains(function.node(), domains);
  }
  for (const auto& training : proto.training_info()) {
    CollectDomains(training.algorithm().node(), domains);
    CollectDomains(training.initialization().node(), domains);
  }
  return RemoveIf(*proto.mutable_opset_import(), [&](const onnx::OperatorSetIdProto& import) {
    return !domains.contains(import.domain());
  });
}

size_t RemoveStaleInfo(ModelImpl& impl) {
  const size_t num_removed =
      RemoveIf(*impl.graph().mutable_value_info(), [&](const onnx::ValueInfoProto& info) {
        const ValueEntry* const entry = impl.Find(info.name());
        return entry == nullptr || !entry->IsDefined();
      });
  if (num_removed > 0) impl.IndexInfo();
  return num_removed;
}

// The value of a Constant node as a tensor; false if it is sparse.
bool TakeConstant(onnx::NodeProto& node, onnx::TensorProto& tensor) {
  if (node.attribute_size() != 1) return false;
  onnx::AttributeProto& attribute = *node.mutable_attribute(0);
  const std::string& name = attribute.name();
  if (name == "value" && attribute.has_t()) {
    tensor.Swap(attribute.mutable_t());
  } else if (name == "value_float" || name == "value_floats") {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    if (name == "value_float") tensor.add_float_data(attribute.f());
    tensor.mutable_float_data()->MergeFrom(attribute.floats());
    if (name == "value_floats") tensor.add_dims(attribute.floats_size());
  } else if (name == "value_int" || name == "value_ints") {
    tensor.set_data_type(onnx::TensorProto::INT64);
    if (name == "value_int") tensor.add_int64_data(attribute.i());
    tensor.mutable_int64_data()->MergeFrom(attribute.ints());
    if (name == "value_ints") tensor.add_dims(attribute.ints_size());
  } else if (name == "value_string" || name == "value_strings") {
    tensor.set_data_type(onnx::TensorProto::STRING);
    if (name == "value_string") tensor.add_string_data(attribute.s());
    tensor.mutable_string_data()->MergeFrom(attribute.strings());
    if (name == "value_strings") tensor.add_dims(attribute.strings_size());
  } else {
    return false;
  }
  return true;
}

}  // namespace

size_t RemoveUnused(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  size_t num_removed = RemoveDeadNodes(impl);
  num_removed += RemoveUnusedInitializers(model);
  num_removed += RemoveUnusedImports(impl.proto);
  num_removed += RemoveStaleInfo(impl);
  return num_removed;
}

size_t ConstantsToInitializers(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  auto& nodes = *impl.graph().mutable_node();
  std::unordered_set<const onnx::NodeProto*> converted;
  for (onnx::NodeProto& node : nodes) {
    if (node.op_type() != "Constant" || !node.domain().empty() || node.output_size() != 1 ||
        impl.Find(node.output(0))->is_output) {
      continue;
    }
    const std::string name = node.output(0);
    onnx::TensorProto tensor;
    if (!TakeConstant(node, tensor)) continue;
    tensor.set_name(name);
    impl.At(name).producer = nullptr;
    onnx::TensorProto& initializer = *impl.graph().add_initializer();
    initializer.Swap(&tensor);
    impl.AdoptInitializer(initializer);
    converted.insert(&node);
  }
  impl.RemoveNodes(converted);
  return converted.size();
}

}  // namespace bitpress::graph
