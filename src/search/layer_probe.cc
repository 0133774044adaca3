#include "search/layer_probe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/extract.h"
#include "ops/compute_ops.h"
#include "runtime/open_model.h"
#include "runtime/ort_library.h"

namespace bitpress::search {
namespace {

using graph::Model;
using graph::Node;

std::vector<std::string> OutputsOf(const Node& node) {
  std::vector<std::string> names;
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i).empty()) names.push_back(node.output(i));
  }
  return names;
}

runtime::Session Open(const Model& model, size_t num_threads) {
  return runtime::OpenModel(model, {.num_threads = runtime::SessionThreads(num_threads)});
}

}  // namespace

LayerProbe::LayerProbe(const Model& model, const Node& node, size_t num_threads)
    : model_(model),
      node_(node),
      key_(plan::NodeIndex(model).KeyOf(node)),
      num_threads_(num_threads),
      layer_outputs_(OutputsOf(node)) {
  std::set<std::string> seen;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::string& input = node.input(i);
    if (input.empty() || model.IsInitializer(input)) continue;
    if (seen.insert(input).second) layer_inputs_.push_back(input);
  }
  FindRest();
  std::set<std::string> before(layer_inputs_.begin(), layer_inputs_.end());
  before.insert(rest_inputs_.begin(), rest_inputs_.end());
  for (const std::string& output : model.OutputNames()) {
    const bool is_apart = std::ranges::find(rest_outputs_, output) == rest_outputs_.end() &&
                          std::ranges::find(layer_outputs_, output) == layer_outputs_.end();
    if (is_apart) before.insert(output);
  }
  std::erase_if(before, [&](const std::string& value) { return model.IsInput(value); });
  if (!before.empty()) {
    const std::vector<std::string> outputs(before.begin(), before.end());
    before_ = Open(graph::Extract(model, {}, outputs), num_threads);
  }
  if (!rest_outputs_.empty()) {
    std::vector<std::string> inputs = layer_outputs_;
    inputs.insert(inputs.end(), rest_inputs_.begin(), rest_inputs_.end());
    rest_ = Open(graph::Extract(model, inputs, rest_outputs_), num_threads);
  }
}

void LayerProbe::FindRest() {
  std::set<std::string> changed(layer_outputs_.begin(), layer_outputs_.end());
  std::set<std::string> read;
  for (const Node& node : model_.Nodes()) {
    if (node == node_) continue;
    // A body counts if it may read a changed value; the values that it captures are not looked at.
    bool is_behind = node.HasSubgraph() && std::ranges::any_of(changed, [&](const auto& value) {
                       return model_.IsUsedInSubgraph(value);
                     });
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      is_behind = is_behind || changed.contains(node.input(i));
    }
    if (!is_behind) continue;
    for (size_t i = 0; i < node.num_inputs(); ++i) read.insert(node.input(i));
    for (const std::string& output : OutputsOf(node)) changed.insert(output);
  }
  for (const std::string& value : read) {
    const bool is_given = value.empty() || changed.contains(value) || model_.IsInitializer(value);
    if (!is_given) rest_inputs_.push_back(value);
  }
  for (const std::string& output : model_.OutputNames()) {
    const bool is_of_layer = std::ranges::find(layer_outputs_, output) != layer_outputs_.end();
    if (changed.contains(output) && !is_of_layer) rest_outputs_.push_back(output);
  }
}

runtime::Session LayerProbe::OpenFloat() const {
  return Open(graph::Extract(model_, layer_inputs_, layer_outputs_), num_threads_);
}

runtime::Session LayerProbe::OpenVariant(const plan::ResolvedPlan& resolved, Purpose purpose,
                                         ThreadPool& pool) const {
  Model layer = graph::Extract(model_, layer_inputs_, layer_outputs_);
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

void LayerProbe::SetSample(std::span<const Tensor> inputs) {
  values_.clear();
  const std::vector<std::string> names = model_.InputNames();
  for (size_t i = 0; i < names.size(); ++i) values_[names[i]] = inputs[i];
  if (!before_) return;
  std::vector<Tensor> results = before_->Run(Gather(before_->inputs()));
  for (size_t i = 0; i < results.size(); ++i) {
    values_[before_->outputs()[i].name] = std::move(results[i]);
  }
}

std::vector<Tensor> LayerProbe::Gather(const std::vector<runtime::ValueDescription>& wanted) const {
  std::vector<Tensor> tensors;
  for (const runtime::ValueDescription& value : wanted) tensors.push_back(values_.at(value.name));
  return tensors;
}

std::vector<Tensor> LayerProbe::RunLayer(runtime::Session& session) const {
  return session.Run(Gather(session.inputs()));
}

std::vector<int64_t> LayerProbe::DimsOf(const std::string& value) const {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second.dims;
  const auto dims = model_.Initializer(value).dims;
  return {dims.begin(), dims.end()};
}

double LayerProbe::CountMacs(const std::vector<Tensor>& layer_outputs) const {
  const std::vector<int64_t> data = DimsOf(node_.input(0));
  const std::vector<int64_t> weight = DimsOf(node_.input(1));
  const auto rank = static_cast<int64_t>(data.size());
  if (ops::IsRecurrent(node_)) {  // a step of a sample meets every weight
    const int64_t num_steps = NumElements(data) / std::max<int64_t>(1, data.back());
    const int64_t num_weights = NumElements(weight) + NumElements(DimsOf(node_.input(2)));
    return static_cast<double>(num_steps) * static_cast<double>(num_weights);
  }
  const std::optional<ops::Operand> operand = ops::OperandOf(node_, 0, rank);
  const auto kernel = ops::OperandOf(node_, 1, static_cast<int64_t>(weight.size()));
  if (!operand || !kernel || weight.empty()) return 0;
  const auto num_outputs = static_cast<double>(layer_outputs.front().num_elements());
  if (kernel->slot != ops::Slot::kKernel) {
    const int64_t axis = operand->axis < 0 ? operand->axis + rank : operand->axis;
    return num_outputs * static_cast<double>(data.at(static_cast<size_t>(axis)));
  }
  // Each element of the output (ConvTranspose: of the input) meets a kernel.
  const auto taps = static_cast<double>(NumElements(std::span(weight).subspan(1)));
  const bool is_transposed = node_.op_type() == "ConvTranspose";
  return taps * (is_transposed ? static_cast<double>(NumElements(data)) : num_outputs);
}

std::vector<evaluate::Output> LayerProbe::RunRest(std::vector<Tensor> layer_outputs) {
  std::map<std::string, evaluate::Output> found;
  const std::vector<std::string> names = model_.OutputNames();
  for (size_t i = 0; i < layer_outputs_.size(); ++i) {
    if (std::ranges::find(names, layer_outputs_[i]) != names.end()) {
      found[layer_outputs_[i]] = evaluate::ToOutput(layer_outputs[i]);
    }
    values_[layer_outputs_[i]] = std::move(layer_outputs[i]);
  }
  if (rest_) {
    const std::vector<Tensor> results = rest_->Run(Gather(rest_->inputs()));
    for (size_t i = 0; i < results.size(); ++i) {
      found[rest_->outputs()[i].name] = evaluate::ToOutput(results[i]);
    }
  }
  std::vector<evaluate::Output> outputs;
  for (const std::string& name : names) {
    const auto output = found.find(name);
    outputs.push_back(output != found.end() ? std::move(output->second)
                                            : evaluate::ToOutput(values_.at(name)));
  }
  return outputs;
}

}  // namespace bitpress::search
