// The inference of types and shapes, by ONNX's library.
//
// The descriptions of values in a file (value_info) may be stale once the model was changed. Behind
// operators that inference does not know there is nothing else. So inference first runs without
// them. Then descriptions of values that inference does not know are put back. If there are any,
// inference runs once more from there.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "graph/model_impl.h"
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

// Removes the empty types that inference leaves if it finds none, because they are not valid.
void ClearEmptyTypes(ValueInfos& infos) {
  for (auto& info : infos) {
    if (info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) info.clear_type();
  }
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
    } else if (old.has_type()) {
      *graph.mutable_value_info()->Add() = old;
      changed = true;
    }
  }
  return changed;
}

}  // namespace

void Model::InferShapes() {
  RegisterSchemas();
  onnx::GraphProto& graph = impl_->mutable_graph();
  RemoveDuplicates(graph);
  ValueInfos old_infos;
  graph.mutable_value_info()->Swap(&old_infos);
  RunInference(impl_->proto);
  if (PutBack(graph, old_infos)) RunInference(impl_->proto);
  ClearEmptyTypes(*graph.mutable_output());
  RemoveDuplicates(graph);
  impl_->IndexInfo();
}

}  // namespace bitpress::graph
