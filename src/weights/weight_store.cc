#include "weights/weight_store.h"

#include <algorithm>
#include <utility>

namespace bitpress::weights {
namespace {

std::vector<int64_t> FilledDims(const StandardForm& form) {
  std::vector<int64_t> dims = form.code_dims;
  if (form.num_filled > 0) dims[static_cast<size_t>(form.axis)] += form.num_filled;
  return dims;
}

}  // namespace

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
  Defer(
      {{target, source.type, source.dims}}, source,
      [compute = std::move(compute)] {
        std::vector<Tensor> tensors;
        tensors.push_back(compute());
        return tensors;
      },
      statistics);
}

void WeightStore::StorePacked(const std::string& target, const graph::HeldInitializer& source,
                              const PackedStorage& packed, graph::TensorProducer compute,
                              WeightStatistics& statistics, bool is_scaled) {
  std::vector<graph::DeferredTensor> tensors;
  std::vector<std::string> inputs;
  for (const PackedStorage::Initializer& part : packed.parts) {
    inputs.push_back(model_.FreshName(target + "_" + part.suffix));
    tensors.push_back({inputs.back(), part.type, part.dims});
  }
  const std::string scale = is_scaled ? model_.FreshName(target + "_scale") : std::string();
  if (is_scaled) tensors.push_back({scale, DataType::kFloat, {}});
  Defer(tensors, source, std::move(compute), statistics);
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

void WeightStore::StoreStandard(const std::string& target, const graph::HeldInitializer& source,
                                const StandardForm& form, graph::TensorProducer compute,
                                WeightStatistics& statistics) {
  std::vector<graph::DeferredTensor> tensors;
  const auto add = [&](const char* suffix, DataType type, const std::vector<int64_t>& dims) {
    tensors.push_back({model_.FreshName(target + suffix), type, dims});
    return tensors.back().name;
  };
  constexpr auto kToFloat = static_cast<int64_t>(DataType::kFloat);
  graph::NodeSpec node{model_.FreshNodeName(target + "_dequantize"),
                       "DequantizeLinear",
                       "",
                       {add("_codes", form.code_type, FilledDims(form))},
                       {},
                       {}};
  if (form.is_cast) {
    node.op_type = "Cast";
    node.attributes = {{"to", kToFloat}};
  } else {
    node.inputs.push_back(
        add(form.has_tensor_scale ? "_block_scale" : "_scale", form.scale_type, form.scale_dims));
  }
  if (form.has_tensor_scale) {
    const std::string scales = model_.FreshName(target + "_scales");
    std::vector<int64_t> channels;
    std::vector<std::pair<std::string, graph::Attribute>> attributes;
    if (form.channel_axis) {
      channels = {form.scale_dims[static_cast<size_t>(*form.channel_axis)]};
      attributes = {{"axis", *form.channel_axis}};
    }
    model_.InsertNode({model_.FreshNodeName(target + "_dequantize_scales"),
                       "DequantizeLinear",
                       "",
                       {node.inputs[1], add("_scale", DataType::kFloat, channels)},
                       {scales},
                       attributes},
                      first_node_);
    Describe(scales, DataType::kFloat, form.scale_dims);
    node.inputs[1] = scales;
  }
  if (form.has_zero_points) {
    node.inputs.push_back(add("_zero_point", form.code_type, form.scale_dims));
  }
  if (!form.scale_dims.empty()) node.attributes.emplace_back("axis", form.axis);
  if (form.block_size > 0) node.attributes.emplace_back("block_size", form.block_size);
  if (form.scale_type == DataType::kFloat8E8M0) {
    node.attributes.emplace_back("output_dtype", kToFloat);
  }
  InsertDecoder(std::move(node), target, form, source.dims);
  Defer(tensors, source, std::move(compute), statistics);
}

void WeightStore::Defer(const std::vector<graph::DeferredTensor>& tensors,
                        const graph::HeldInitializer& source, graph::TensorProducer compute,
                        WeightStatistics& statistics) {
  for (const graph::DeferredTensor& tensor : tensors) {
    statistics.stored_bytes += NumBytes(tensor.type, NumElements(tensor.dims));
  }
  model_.DeferInitializers(tensors,
                           [tensors, source, compute = std::move(compute), progress = progress_] {
                             std::vector<Tensor> produced = compute();
                             source.Release();
                             produced.resize(tensors.size());
                             for (size_t i = 0; i < tensors.size(); ++i) {
                               produced[i].type = tensors[i].type;
                               produced[i].dims = tensors[i].dims;
                             }
                             progress->Step();
                             return produced;
                           });
}

void WeightStore::InsertDecoder(graph::NodeSpec node, const std::string& target,
                                const StandardForm& form, const std::vector<int64_t>& dims) {
  const bool is_reshaped = form.code_dims != dims;
  const std::string rows = is_reshaped ? model_.FreshName(target + "_rows") : target;
  node.outputs = {form.num_filled > 0 ? model_.FreshName(target + "_blocks") : rows};
  model_.InsertNode(node, first_node_);
  Describe(node.outputs[0], DataType::kFloat, FilledDims(form));
  if (form.num_filled > 0) {
    const int64_t length = form.code_dims[static_cast<size_t>(form.axis)];
    model_.InsertNode(
        {model_.FreshNodeName(target + "_slice"),
         "Slice",
         "",
         {node.outputs[0], StoreIndices(target + "_begin", {0}),
          StoreIndices(target + "_end", {length}), StoreIndices(target + "_axis", {form.axis})},
         {rows},
         {}},
        first_node_);
    Describe(rows, DataType::kFloat, form.code_dims);
  }
  if (!is_reshaped) return;
  model_.InsertNode({model_.FreshNodeName(target + "_reshape"),
                     "Reshape",
                     "",
                     {rows, StoreIndices(target + "_shape", dims)},
                     {target},
                     {}},
                    first_node_);
  Describe(target, DataType::kFloat, dims);
}

std::string WeightStore::StoreIndices(const std::string& name, const std::vector<int64_t>& values) {
  Tensor tensor{DataType::kInt64,
                {static_cast<int64_t>(values.size())},
                std::vector<std::byte>(values.size() * sizeof(int64_t))};
  std::ranges::copy(values, tensor.values<int64_t>().begin());
  std::string fresh = model_.FreshName(name);
  model_.SetInitializer(fresh, std::move(tensor));
  return fresh;
}

void WeightStore::Describe(const std::string& value, DataType type,
                           const std::vector<int64_t>& dims) {
  graph::ValueInfo info{.type = type, .has_shape = true, .shape = {}};
  for (const int64_t dim : dims) info.shape.push_back({dim, ""});
  model_.SetInfo(value, info);
}

}  // namespace bitpress::weights
