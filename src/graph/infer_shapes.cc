// The inference of types and shapes, by ONNX's library.
//
// The descriptions of values in a file (value_info) may be stale once the model was changed. Behind
// operators that inference does not know there is nothing else. So inference first runs without
// them. Then descriptions of values that inference does not know are put back, and operators with
// one type of output describe theirs. If there are any, inference runs once more from there.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "graph/model_impl.h"
#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

namespace bitpress::graph {
namespace {

using ValueInfos = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

void RunInference(onnx::ModelProto& proto) {
  const onnx::ShapeInferenceOptions options(/*check_type=*/false, /*error_mode=*/0,
                                            /*enable_data_propagation=*/true);
  try {
    onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception&) {
    // Inference cannot cope with a node. The model has the results so far.
  }
  // If inference finds a shape and no type, as behind an operator that it does not know, it
  // leaves a description without a type.
  RemoveUnknownTypes(*proto.mutable_graph());
}

// Keeps one entry for each value, and none for inputs, outputs and initializers, which have types
// of their own.
void RemoveDuplicates(onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> known;
  for (const auto& info : graph.input()) known.insert(info.name());
  for (const auto& tensor : graph.initializer()) known.insert(tensor.name());
  for (const auto& info : graph.output()) {
    if (info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET) known.insert(info.name());
  }
  auto& infos = *graph.mutable_value_info();
  ValueInfos unique;
  for (auto& info : infos) {
    if (known.insert(info.name()).second) unique.Add()->Swap(&info);
  }
  infos.Swap(&unique);
}

bool KnowsMore(const onnx::TensorShapeProto::Dimension& dim,
               const onnx::TensorShapeProto::Dimension& than) {
  return dim.has_dim_value() && !than.has_dim_value();
}

// Adds to `type` the parts that only `old` knows, unless the two contradict each other. Returns
// whether there were any.
bool Complete(onnx::TypeProto& type, const onnx::TypeProto& old) {
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) {
    type = old;
    return old.value_case() != onnx::TypeProto::VALUE_NOT_SET;
  }
  if (!type.has_tensor_type() || !old.has_tensor_type() || !old.tensor_type().has_shape() ||
      type.tensor_type().elem_type() != old.tensor_type().elem_type()) {
    return false;
  }
  const auto& old_shape = old.tensor_type().shape();
  if (!type.tensor_type().has_shape()) {
    *type.mutable_tensor_type()->mutable_shape() = old_shape;
    return true;
  }
  auto& shape = *type.mutable_tensor_type()->mutable_shape();
  if (shape.dim_size() != old_shape.dim_size()) return false;
  bool knows_more = false;
  for (int i = 0; i < shape.dim_size(); ++i) {
    const auto& dim = shape.dim(i);
    const auto& old_dim = old_shape.dim(i);
    const bool contradicts =
        dim.has_dim_value() && old_dim.has_dim_value() && dim.dim_value() != old_dim.dim_value();
    if (contradicts) return false;
    knows_more = knows_more || KnowsMore(old_dim, dim);
  }
  for (int i = 0; knows_more && i < shape.dim_size(); ++i) {
    if (KnowsMore(old_shape.dim(i), shape.dim(i))) *shape.mutable_dim(i) = old_shape.dim(i);
  }
  return knows_more;
}

bool PutBack(onnx::GraphProto& graph, const ValueInfos& old_infos) {
  std::unordered_map<std::string_view, onnx::ValueInfoProto*> inferred;
  for (auto& info : *graph.mutable_value_info()) inferred.emplace(info.name(), &info);
  bool changed = false;
  for (const auto& old : old_infos) {
    const auto found = inferred.find(old.name());
    if (found != inferred.end()) {
      changed = Complete(*found->second->mutable_type(), old.type()) || changed;
    } else if (IsKnown(old.type())) {
      *graph.mutable_value_info()->Add() = old;
      changed = true;
    }
  }
  return changed;
}

bool Contradicts(const onnx::TypeProto& inferred, const onnx::TypeProto& stated) {
  if (!inferred.has_tensor_type() || !stated.has_tensor_type()) return false;
  if (!inferred.tensor_type().has_shape() || !stated.tensor_type().has_shape()) return false;
  const auto& left = inferred.tensor_type().shape().dim();
  const auto& right = stated.tensor_type().shape().dim();
  return !std::ranges::equal(left, right, [](const auto& one, const auto& other) {
    return !one.has_dim_value() || !other.has_dim_value() || one.dim_value() == other.dim_value();
  });
}

// Infers the shapes of outputs as if the file did not state them. What it states stays unless it
// contradicts the operators: the checker would refuse such a model, and some exporters write it.
void CorrectOutputs(onnx::ModelProto& proto) {
  auto& outputs = *proto.mutable_graph()->mutable_output();
  ValueInfos stated = outputs;
  for (auto& output : outputs) {
    if (output.type().has_tensor_type())
      output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  RunInference(proto);
  for (int i = 0; i < outputs.size(); ++i) {
    if (Contradicts(outputs[i].type(), stated[i].type())) continue;
    outputs[i].Swap(&stated[i]);
    if (stated[i].has_type()) Complete(*outputs[i].mutable_type(), stated[i].type());
  }
}

// Returns the type that the node's output has whatever its inputs are: some operators of
// ai.onnx.ml have no inference of their own, but floats as their only type. Null if there are
// several types.
const onnx::TypeProto* OnlyTypeOf(const onnx::OpSchema& schema, int output) {
  if (schema.outputs().empty()) return nullptr;
  const auto last = schema.outputs().size() - 1;
  const auto& types = schema.outputs()[std::min(static_cast<size_t>(output), last)].GetTypes();
  if (types.size() != 1) return nullptr;
  return &onnx::Utils::DataTypeUtils::ToTypeProto(*types.begin());
}

// Describes the outputs of nodes that have only one type, where inference found none. Returns
// whether there are any.
bool DescribeOnlyTypes(onnx::GraphProto& graph, const std::map<std::string, int>& opsets) {
  std::unordered_set<std::string_view> known;
  for (const auto& info : graph.value_info()) known.insert(info.name());
  for (const auto& output : graph.output()) {
    if (IsKnown(output.type())) known.insert(output.name());
  }
  ValueInfos added;
  for (const auto& node : graph.node()) {
    const auto opset = opsets.find(node.domain());
    if (opset == opsets.end()) continue;
    const onnx::OpSchema* const schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, node.domain());
    for (int i = 0; schema != nullptr && i < node.output_size(); ++i) {
      const onnx::TypeProto* const type = node.output(i).empty() || known.contains(node.output(i))
                                              ? nullptr
                                              : OnlyTypeOf(*schema, i);
      if (type == nullptr) continue;
      auto& info = *added.Add();
      info.set_name(node.output(i));
      *info.mutable_type() = *type;
    }
  }
  for (auto& info : added) graph.mutable_value_info()->Add()->Swap(&info);
  return !added.empty();
}

bool DescribeOnlyTypes(onnx::ModelProto& proto) {
  std::map<std::string, int> opsets;
  for (const auto& import : proto.opset_import()) {
    opsets[import.domain()] = static_cast<int>(import.version());
  }
  bool changed = DescribeOnlyTypes(*proto.mutable_graph(), opsets);
  ForEachBody(*proto.mutable_graph()->mutable_node(), [&](onnx::GraphProto& body) {
    changed = DescribeOnlyTypes(body, opsets) || changed;
  });
  return changed;
}

// Forgets the names that inference gave to unknown dimensions, where the graph has MoE. Values
// whose dimensions have the same names may share memory in ONNX Runtime, and its CPU kernel of MoE
// overwrites its input then before it has read it.
void ForgetInventedNames(onnx::GraphProto& graph) {
  constexpr std::string_view kInvented = "unk__";
  const bool has_experts = std::ranges::any_of(
      graph.node(), [](const onnx::NodeProto& node) { return node.op_type() == "MoE"; });
  if (!has_experts) return;
  for (auto& info : *graph.mutable_value_info()) {
    if (!info.type().tensor_type().has_shape()) continue;
    for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (std::string_view(dim.dim_param()).starts_with(kInvented)) dim.clear_dim_param();
    }
  }
}

}  // namespace

bool IsKnown(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return type.tensor_type().elem_type() != onnx::TensorProto::UNDEFINED;
    case onnx::TypeProto::kSparseTensorType:
      return type.sparse_tensor_type().elem_type() != onnx::TensorProto::UNDEFINED;
    case onnx::TypeProto::kSequenceType:
      return IsKnown(type.sequence_type().elem_type());
    case onnx::TypeProto::kOptionalType:
      return IsKnown(type.optional_type().elem_type());
    case onnx::TypeProto::kMapType:
      return IsKnown(type.map_type().value_type());
    case onnx::TypeProto::VALUE_NOT_SET:
      return false;
    default:
      return true;
  }
}

void RemoveUnknownTypes(onnx::GraphProto& graph) {
  const auto clean = [](onnx::GraphProto& one) {
    auto& infos = *one.mutable_value_info();
    const auto end = std::remove_if(infos.begin(), infos.end(),
                                    [](const auto& info) { return !IsKnown(info.type()); });
    infos.erase(end, infos.end());
    for (auto& output : *one.mutable_output()) {
      if (!IsKnown(output.type())) output.clear_type();
    }
  };
  clean(graph);
  ForEachBody(*graph.mutable_node(), clean);
}

void Model::InferShapes() {
  RegisterSchemas();
  onnx::GraphProto& graph = impl_->mutable_graph();
  RemoveDuplicates(graph);
  ValueInfos old_infos;
  graph.mutable_value_info()->Swap(&old_infos);
  CorrectOutputs(impl_->proto);
  const bool knows_more = PutBack(graph, old_infos);
  if (DescribeOnlyTypes(impl_->proto) || knows_more) RunInference(impl_->proto);
  RemoveDuplicates(graph);
  ForgetInventedNames(graph);
  impl_->IndexInfo();
}

void Model::DropDescriptions() {
  onnx::GraphProto& graph = impl_->mutable_graph();
  graph.clear_value_info();
  ForEachBody(*graph.mutable_node(), [](onnx::GraphProto& body) { body.clear_value_info(); });
  impl_->IndexInfo();
}

}  // namespace bitpress::graph
