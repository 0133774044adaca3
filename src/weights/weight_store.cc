#include "weights/weight_store.h"

#include <algorithm>
#include <utility>

namespace bitpress::weights {

void WeightStore::Progress::Step() {
  ++num_done;
  if (sink) sink("quantize weights", std::min(num_done, num_weights), num_weights);
}

WeightStore::WeightStore(graph::Model& model, ProgressSink sink)
    : model_(model), progress_(std::make_shared<Progress>(Progress{std::move(sink), 0, 0})) {
  const std::vector<graph::Node> nodes = model.Nodes();
  if (!nodes.empty()) first_node_ = nodes.front();
}

void WeightStore::StoreFloats(const std::string& target, const graph::HeldInitializer& source,
                              std::function<Tensor()> compute, WeightStatistics& statistics) {
  statistics.stored_bytes = source.bytes.size();
  model_.DeferInitializers({{target, source.type, source.dims}},
                           [compute = std::move(compute), source, progress = progress_] {
                             std::vector<Tensor> tensors;
                             tensors.push_back(compute());
                             source.Release();
                             progress->Step();
                             return tensors;
                           });
}

void WeightStore::StorePacked(const std::string& target, const graph::HeldInitializer& source,
                              const PackedStorage& packed, graph::TensorProducer compute,
                              WeightStatistics& statistics, bool is_scaled) {
  std::vector<graph::DeferredTensor> tensors;
  std::vector<std::string> inputs;
  for (const PackedStorage::Initializer& part : packed.parts) {
    inputs.push_back(model_.FreshName(target + "_" + part.suffix));
    tensors.push_back({inputs.back(), part.type, part.dims});
    statistics.stored_bytes += NumBytes(part.type, NumElements(part.dims));
  }
  const std::string scale = is_scaled ? model_.FreshName(target + "_scale") : std::string();
  if (is_scaled) {
    tensors.push_back({scale, DataType::kFloat, {}});
    statistics.stored_bytes += sizeof(float);
  }
  model_.DeferInitializers(tensors, [compute = std::move(compute), parts = packed.parts, source,
                                     progress = progress_, num_tensors = tensors.size()] {
    std::vector<Tensor> produced = compute();
    source.Release();
    produced.resize(num_tensors);
    for (size_t i = 0; i < parts.size(); ++i) {
      produced[i].type = parts[i].type;
      produced[i].dims = parts[i].dims;
    }
    progress->Step();
    return produced;
  });
  model_.SetOpsetImport(packed.function.domain, 1);
  model_.SetFunction(packed.function);
  const bool is_half = source.type == DataType::kFloat16;
  const std::string floats = is_half ? model_.FreshName(target + "_float") : target;
  const std::string decoded = is_scaled ? model_.FreshName(target + "_unscaled") : floats;
  model_.InsertNode({model_.FreshNodeName(decoded + "_unpack"),
                     packed.function.name,
                     packed.function.domain,
                     inputs,
                     {decoded},
                     packed.attributes},
                    first_node_);
  Describe(decoded, DataType::kFloat, source.dims);
  if (is_scaled) {
    const std::string name = model_.FreshNodeName(target + "_scale_up");
    model_.InsertNode({name, "Mul", "", {decoded, scale}, {floats}, {}}, first_node_);
    Describe(floats, DataType::kFloat, source.dims);
  }
  if (is_half) {
    model_.InsertNode({model_.FreshNodeName(target + "_cast"),
                       "Cast",
                       "",
                       {floats},
                       {target},
                       {{"to", static_cast<int64_t>(DataType::kFloat16)}}},
                      first_node_);
    Describe(target, DataType::kFloat16, source.dims);
  }
}

void WeightStore::StoreDequantized(const std::string& target, const Dequantization& form,
                                   graph::TensorProducer compute, WeightStatistics& statistics) {
  const std::string codes = model_.FreshName(target + "_codes");
  const std::string scale = model_.FreshName(target + "_scale");
  const std::string zero_point = model_.FreshName(target + "_zero_point");
  const std::vector<graph::DeferredTensor> tensors{{codes, form.type, form.dims},
                                                   {scale, DataType::kFloat, form.scale_dims},
                                                   {zero_point, form.type, form.scale_dims}};
  for (const graph::DeferredTensor& tensor : tensors) {
    statistics.stored_bytes += NumBytes(tensor.type, NumElements(tensor.dims));
  }
  model_.DeferInitializers(tensors, [compute = std::move(compute), progress = progress_] {
    std::vector<Tensor> produced = compute();
    progress->Step();
    return produced;
  });
  graph::NodeSpec node{model_.FreshNodeName(target + "_dequantize"),
                       "DequantizeLinear",
                       "",
                       {codes, scale, zero_point},
                       {target},
                       {}};
  if (!form.scale_dims.empty()) node.attributes.emplace_back("axis", form.axis);
  if (form.block_size > 0) node.attributes.emplace_back("block_size", form.block_size);
  model_.InsertNode(node, first_node_);
  Describe(target, DataType::kFloat, form.dims);
}

void WeightStore::Describe(const std::string& value, DataType type,
                           const std::vector<int64_t>& dims) {
  graph::ValueInfo info{.type = type, .has_shape = true, .shape = {}};
  for (const int64_t dim : dims) info.shape.push_back({dim, ""});
  model_.SetInfo(value, info);
}

}  // namespace bitpress::weights
