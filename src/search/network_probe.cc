#include "search/network_probe.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "kernels/half.h"
#include "runtime/session.h"

namespace bitpress::search {
namespace {

using graph::Model;
using graph::Node;
using runtime::IsObservable;

Tensor CopyOf(const runtime::ObservedTensor& tensor) {
  Tensor copy{tensor.type, {tensor.dims.begin(), tensor.dims.end()}, {}};
  const auto* const bytes = static_cast<const std::byte*>(tensor.data);
  copy.bytes.assign(bytes, bytes + NumBytes(tensor.type, copy.num_elements()));
  return copy;
}

// Returns FLOAT as FLOAT16 or the other way round. ONNX Runtime computes operators that it has no
// half-precision kernel for in float, and leaves the casts around a pass out.
Tensor As(DataType type, Tensor tensor) {
  if (tensor.type == type) return tensor;
  Tensor converted{type, tensor.dims, {}};
  converted.bytes.resize(NumBytes(type, tensor.num_elements()));
  if (type == DataType::kFloat) {
    kernels::HalfToFloat(tensor.values<uint16_t>(), converted.values<float>().data());
  } else {
    kernels::FloatToHalf(tensor.values<float>(), converted.values<uint16_t>().data());
  }
  return converted;
}

std::string TypeText(DataType type) {
  if (type == DataType::kUndefined) return "of no known type";
  return fmt::format("of type {}", DataTypeName(type));
}

// Returns why passes cannot show and replace a layer's values, or "".
std::string FindObstacle(const Model& model, const NetworkProbe::Layer& layer) {
  const auto is_computed = [&](const std::string& value) { return !model.IsInput(value); };
  const auto type_of = [&](const std::string& value) { return model.InfoOf(value).type; };
  if (layer.inputs.empty()) return "all its inputs are constants";
  for (const std::string& value : layer.inputs) {
    if (is_computed(value) && !IsObservable(type_of(value))) {
      return fmt::format("its input '{}' is computed and {}", value, TypeText(type_of(value)));
    }
  }
  const bool is_read = std::ranges::any_of(
      layer.outputs, [&](const std::string& value) { return model.IsRead(value); });
  if (!is_read) return "nothing reads its result";
  for (const std::string& value : layer.outputs) {
    if (IsObservable(type_of(value))) continue;
    return fmt::format("its output '{}' is {}", value, TypeText(type_of(value)));
  }
  return "";
}

graph::NodeSpec PassNode(const std::string& from, const std::string& to, size_t id) {
  return {fmt::format("{}_pass_{}", to, id),
          runtime::kObservePass,
          runtime::kObserverDomain,
          {from},
          {to},
          {{"id", static_cast<int64_t>(id)}}};
}

}  // namespace

NetworkProbe::Layer ValuesOf(const Model& model, const Node& node) {
  NetworkProbe::Layer layer;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::string& input = node.input(i);
    const bool is_known = std::ranges::find(layer.inputs, input) != layer.inputs.end();
    if (!input.empty() && !model.IsInitializer(input) && !is_known) layer.inputs.push_back(input);
  }
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i).empty()) layer.outputs.push_back(node.output(i));
  }
  return layer;
}

// Collects the inputs of the active layer and puts others in place of its outputs.
class NetworkProbe::Sink : public runtime::ObserverSink {
 public:
  // Adds the pass of a value that layers read. Returns its id.
  size_t AddInput(const std::string& value, DataType type) {
    places_.push_back({value, type, kNoLayer});
    return places_.size() - 1;
  }
  size_t AddOutput(const std::string& value, DataType type, size_t layer) {
    places_.push_back({value, type, layer});
    return places_.size() - 1;
  }

  using Given = std::map<std::string, const Tensor*>;
  // Begins a run in which the outputs of `layer` are replaced. Values of `given` are known.
  void Begin(size_t layer, const Layer& names, const Given& given, const Replace& replace) {
    active_ = layer;
    names_ = names;
    replace_ = &replace;
    values_.inputs.assign(names.inputs.size(), {});
    values_.outputs.assign(names.outputs.size(), {});
    results_.clear();
    for (size_t i = 0; i < names.inputs.size(); ++i) {
      if (const auto at = given.find(names.inputs[i]); at != given.end()) {
        values_.inputs[i] = *at->second;
      }
    }
  }
  void End() { active_ = kNoLayer; }
  bool has_replaced() const { return !results_.empty(); }
  LayerValues& values() { return values_; }

  void Observe(const runtime::ObservedTensor& tensor, const runtime::ParallelTasks&) override {
    if (active_ == kNoLayer) return;
    const Place& place = PlaceOf(tensor);
    if (place.layer == kNoLayer) {
      const auto at = std::ranges::find(names_.inputs, place.value);
      if (at != names_.inputs.end()) {
        values_.inputs[static_cast<size_t>(at - names_.inputs.begin())] =
            As(place.type, CopyOf(tensor));
      }
    } else if (place.layer == active_) {
      values_.outputs[OutputOf(place)] = As(place.type, CopyOf(tensor));
      if (results_.empty()) results_ = (*replace_)(values_);
    }
  }

  void Change(const runtime::ObservedTensor& tensor, void* copy,
              const runtime::ParallelTasks&) override {
    const Place& place = PlaceOf(tensor);
    if (active_ == kNoLayer || place.layer != active_) return;
    const Tensor& result = results_.at(OutputOf(place));
    if (result.type != place.type || !std::ranges::equal(result.dims, tensor.dims)) {
      Fail(ErrorCode::kUnsupported,
           "'{}' is {} [{}], and {} [{}] when its layer is quantized: it cannot be measured",
           place.value, DataTypeName(place.type), fmt::join(tensor.dims, ", "),
           DataTypeName(result.type), fmt::join(result.dims, ", "));
    }
    if (result.type == tensor.type) {
      std::memcpy(copy, result.bytes.data(), result.bytes.size());
    } else {
      const Tensor converted = As(tensor.type, result);
      std::memcpy(copy, converted.bytes.data(), converted.bytes.size());
    }
  }

 private:
  static constexpr size_t kNoLayer = SIZE_MAX;
  struct Place {
    std::string value;
    DataType type;  // that the model gives the value
    size_t layer;   // whose output the value is; kNoLayer: it is an input of layers
  };

  const Place& PlaceOf(const runtime::ObservedTensor& tensor) const {
    return places_[static_cast<size_t>(tensor.id)];
  }
  size_t OutputOf(const Place& place) const {
    return static_cast<size_t>(std::ranges::find(names_.outputs, place.value) -
                               names_.outputs.begin());
  }

  std::vector<Place> places_;  // by id
  size_t active_ = kNoLayer;
  Layer names_;
  const Replace* replace_ = nullptr;
  LayerValues values_;
  std::vector<Tensor> results_;
};

// The time in which a sink replaces.
class NetworkProbe::Replacing {
 public:
  Replacing(Sink& sink, size_t layer, const Layer& names, const Sink::Given& given,
            const Replace& replace)
      : sink_(sink) {
    sink_.Begin(layer, names, given, replace);
  }
  ~Replacing() { sink_.End(); }
  Replacing(const Replacing&) = delete;
  Replacing& operator=(const Replacing&) = delete;

 private:
  Sink& sink_;
};

NetworkProbe::NetworkProbe(const Model& original, std::span<const Node> layers, size_t num_threads)
    : sink_(std::make_unique<Sink>()), operators_(*sink_) {
  Model model = original.Clone();
  model.SetOpsetImport(runtime::kObserverDomain, 1);
  const plan::NodeIndex original_index(original);
  const plan::NodeIndex index(model);
  const auto type_of = [&](const std::string& value) { return original.InfoOf(value).type; };
  // The nodes in the clone, before anything is renamed.
  std::vector<Node> nodes;
  for (const Node& node : layers) {
    nodes.push_back(index.Find({original_index.KeyOf(node), node.op_type(), 0}));
    names_.push_back(ValuesOf(model, node));
    why_not_.push_back(FindObstacle(model, names_.back()));
  }
  // A layer's output keeps its name behind the pass, so that nobody else changes.
  for (size_t layer = 0; layer < nodes.size(); ++layer) {
    if (!why_not_[layer].empty()) continue;
    Node node = nodes[layer];
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const std::string value = node.output(i);
      if (value.empty()) continue;
      const std::optional<Node> before = model.NodeBehind(value);
      const std::string source = model.FreshName(value + "_float");
      node.set_output(i, source);
      model.InsertNode(PassNode(source, value, sink_->AddOutput(value, type_of(value), layer)),
                       before, node);
    }
  }
  // A pass in front of the layer, and no mere observer, because it has to run before the layer.
  std::map<std::string, std::string> seen;  // the value behind the pass, by value
  for (size_t layer = 0; layer < nodes.size(); ++layer) {
    if (!why_not_[layer].empty()) continue;
    Node node = nodes[layer];
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string value = node.input(i);
      if (value.empty() || model.IsInitializer(value) || model.IsInput(value)) continue;
      if (!seen.contains(value)) {
        const std::string passed = model.FreshName(value + "_seen");
        model.InsertNode(PassNode(value, passed, sink_->AddInput(value, type_of(value))),
                         model.NodeBehind(value), model.Producer(value));
        seen.emplace(value, passed);
      }
      node.set_input(i, seen[value]);
    }
  }
  input_names_ = model.InputNames();
  runtime::SessionOptions options;
  options.num_threads = runtime::SessionThreads(num_threads);
  options.observers = &operators_;
  session_ = std::make_unique<runtime::Session>(runtime::Session::FromModel(model, options));
}

NetworkProbe::~NetworkProbe() = default;

std::vector<std::string> NetworkProbe::OutputNames() const {
  std::vector<std::string> names;
  for (const runtime::ValueDescription& output : session_->outputs()) names.push_back(output.name);
  return names;
}

std::vector<Tensor> NetworkProbe::Run(const std::vector<Tensor>& inputs) {
  return session_->Run(inputs);
}

std::vector<Tensor> NetworkProbe::RunWith(const std::vector<Tensor>& inputs, size_t layer,
                                          const Replace& replace, LayerValues* values) {
  BITPRESS_DCHECK(why_not_[layer].empty());
  Sink::Given given;
  for (size_t i = 0; i < inputs.size(); ++i) given[input_names_[i]] = &inputs[i];
  const Replacing replacing(*sink_, layer, names_[layer], given, replace);
  std::vector<Tensor> outputs = session_->Run(inputs);
  if (!sink_->has_replaced()) Fail(ErrorCode::kUnsupported, "nothing of the model reads it");
  if (values != nullptr) *values = std::move(sink_->values());
  return outputs;
}

}  // namespace bitpress::search
