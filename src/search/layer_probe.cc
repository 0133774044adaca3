#include "search/layer_probe.h"

#include <algorithm>
#include <utility>

#include "graph/extract.h"
#include "ops/multiply_adds.h"
#include "ops/operator_traits.h"
#include "runtime/ort_library.h"
#include "runtime/session.h"
#include "search/network_probe.h"

namespace bitpress::search {
namespace {

using graph::Model;
using graph::Node;

runtime::Session Open(const Model& model, size_t num_threads) {
  return runtime::Session::FromModel(model, {.num_threads = runtime::SessionThreads(num_threads)});
}

}  // namespace

LayerProbe::LayerProbe(const Model& model, const Node& node, size_t num_threads)
    : model_(model),
      node_(node),
      key_(plan::NodeIndex(model).KeyOf(node)),
      num_threads_(num_threads) {
  NetworkProbe::Layer values = ValuesOf(model, node);
  inputs_ = std::move(values.inputs);
  outputs_ = std::move(values.outputs);
}

runtime::Session LayerProbe::OpenFloat() const {
  return Open(graph::Extract(model_, inputs_, outputs_), num_threads_);
}

runtime::Session LayerProbe::OpenVariant(const plan::ResolvedPlan& resolved, Purpose purpose,
                                         ThreadPool& pool) const {
  Model layer = graph::Extract(model_, inputs_, outputs_);
  const std::string key_alone = plan::NodeIndex(layer).KeyOf(layer.Nodes().back());
  // Rows of this layer alone, and what belongs to them: tables of the whole model would be copied
  // for every layer in every part.
  plan::ResolvedPlan part;
  part.plan = resolved.plan;
  part.plan.tensors.clear();
  part.plan.caches.clear();
  const auto keep = [](const auto& from, const auto& key, auto& to) {
    if (const auto found = from.find(key); found != from.end()) to.insert(*found);
  };
  for (const plan::TensorPlan& row : resolved.plan.tensors) {
    if (!row.is_quantized()) continue;
    plan::TensorPlan alone = row;
    alone.uses.clear();
    alone.is_graph_output = false;
    for (const plan::TensorUse& use : row.uses) {
      if (use.node == key_) alone.uses.push_back({key_alone, use.op_type, use.input});
    }
    if (alone.uses.empty()) continue;
    keep(resolved.scales, plan::ScaleKeyOf(row), part.scales);
    keep(resolved.scales, plan::ScaleKey{row.value, row.through}, part.scales);
    keep(resolved.channels, row.value, part.channels);
    keep(resolved.weight_scales, plan::ScaleKeyOf(row), part.weight_scales);
    part.plan.tensors.push_back(std::move(alone));
  }
  emit::ApplyOptions options;
  const bool has_library = !runtime::FindOperatorLibrary().empty();
  options.is_portable = !has_library;
  if (purpose == Purpose::kValues) {
    options.storage = emit::Storage::kSimulated;
  } else if (has_library) {
    options.target = emit::Target::kBitpress;
  }
  emit::ApplyPlan(layer, part, options, pool);
  return Open(layer, num_threads_);
}

std::vector<Tensor> LayerProbe::Run(runtime::Session& session,
                                    const std::vector<Tensor>& inputs) const {
  // A variant may read them in another order.
  std::vector<Tensor> wanted;
  for (const runtime::ValueDescription& value : session.inputs()) {
    const auto at = std::ranges::find(inputs_, value.name);
    wanted.push_back(inputs.at(static_cast<size_t>(at - inputs_.begin())));
  }
  return session.Run(wanted);
}

std::vector<int64_t> LayerProbe::DimsOf(const std::string& value,
                                        const std::vector<Tensor>& inputs) const {
  const auto found = std::ranges::find(inputs_, value);
  if (found != inputs_.end()) return inputs[static_cast<size_t>(found - inputs_.begin())].dims;
  const auto dims = model_.Initializer(value).dims;
  return {dims.begin(), dims.end()};
}

double LayerProbe::CountMacs(const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& outputs) const {
  const auto [weight, states] = ops::WeightInputs(node_);
  ops::ProductShapes shapes{.data = DimsOf(node_.input(0), inputs),
                            .weight = DimsOf(node_.input(weight), inputs),
                            .states = {},
                            .output = outputs.front().dims};
  if (ops::TraitsOf(node_).has_weights_only()) shapes.states = DimsOf(node_.input(states), inputs);
  return ops::MultiplyAdds(node_, shapes);
}

}  // namespace bitpress::search
