#include "calibrate/noise_probe.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/output_error.h"
#include "base/scratch_folder.h"
#include "formats/reference.h"
#include "plan/quant_plan.h"

namespace bitpress::calibrate {
namespace {

using graph::Node;

struct Rounding {
  formats::QParams params;
  formats::CodeRange codes;
};

// Rounds as QuantizeLinear and DequantizeLinear do. NaN becomes 0. REQUIRES: codes of 16 bits at
// most.
void Round(const Rounding& rounding, float* values, size_t count) {
  // Numbers of steps stay below 2^17, where adding and subtracting 1.5 * 2^23 rounds to whole
  // numbers, ties to even.
  constexpr float kMagic = 0x1.8p23f;
  const float scale = rounding.params.scale;
  const auto least =
      static_cast<float>(rounding.codes.quant_min - int64_t{rounding.params.zero_point});
  const auto most =
      static_cast<float>(rounding.codes.quant_max - int64_t{rounding.params.zero_point});
  for (size_t i = 0; i < count; ++i) {
    const float quotient = values[i] / scale;
    const float steps = quotient == quotient ? quotient : 0.0F;
    values[i] = ((std::min(std::max(steps, least), most) + kMagic) - kMagic) * scale;
  }
}

// A row and the places in the model that its rounding concerns.
struct Place {
  const plan::TensorPlan* row;
  std::vector<graph::Use> uses;
  std::optional<Node> before;
  std::optional<Node> producer;
};

// Makes the readers of a row read what the node `id` passes on.
void InsertPass(graph::Model& model, const Place& place, size_t id) {
  const std::string& value = place.row->value;
  std::string source = value;
  std::string target = model.FreshName(value + "_rounded");
  if (place.row->is_graph_output && place.producer) {
    // The output keeps its name, and so do the readers of the row.
    source = model.FreshName(value + "_float");
    target = value;
    for (graph::Use use : model.AllUses(value)) use.node.set_input(use.input_index, source);
    Node producer = *place.producer;
    for (size_t i = 0; i < producer.num_outputs(); ++i) {
      if (producer.output(i) == value) producer.set_output(i, source);
    }
  }
  model.InsertNode({model.FreshNodeName(fmt::format("{}_rounding_{}", value, id)),
                    runtime::kObservePass,
                    runtime::kObserverDomain,
                    {source},
                    {target},
                    {{"id", static_cast<int64_t>(id)}}},
                   place.before, place.producer);
  for (graph::Use use : place.uses) use.node.set_input(use.input_index, target);
}

graph::Model WithPasses(const graph::Model& original, const plan::ResolvedPlan& resolved,
                        const std::vector<size_t>& rows) {
  graph::Model model = original.Clone();
  const plan::NodeIndex index(model);
  std::vector<Place> places;
  for (const size_t i : rows) {
    const plan::TensorPlan& row = resolved.plan.tensors[i];
    Place place{&row, {}, model.NodeBehind(row.value), model.Producer(row.value)};
    for (const plan::TensorUse& use : row.uses) {
      place.uses.push_back({index.Find(use), static_cast<size_t>(use.input)});
    }
    places.push_back(std::move(place));
  }
  model.SetOpsetImport(runtime::kObserverDomain, 1);
  for (size_t id = 0; id < places.size(); ++id) InsertPass(model, places[id], id);
  return model;
}

}  // namespace

// Rounds what passes the nodes that are switched on.
class NoiseProbe::Rounder : public runtime::ObserverSink {
 public:
  explicit Rounder(std::vector<Rounding> roundings) : roundings_(std::move(roundings)) {}

  void SetParams(size_t id, const formats::QParams& params) { roundings_[id].params = params; }
  void Switch(std::vector<bool> is_on) { is_on_ = std::move(is_on); }
  size_t size() const { return roundings_.size(); }

  void Observe(const runtime::ObservedTensor&, const runtime::ParallelTasks&) override {}
  void Change(const runtime::ObservedTensor& tensor, void* copy,
              const runtime::ParallelTasks& run_parallel) override {
    const auto id = static_cast<size_t>(tensor.id);
    if (!is_on_[id] || tensor.type != DataType::kFloat) return;
    constexpr size_t kAtOnce = size_t{1} << 15;
    const auto count = static_cast<size_t>(NumElements(tensor.dims));
    auto* const values = static_cast<float*>(copy);
    run_parallel((count + kAtOnce - 1) / kAtOnce, [&](size_t task) {
      const size_t begin = task * kAtOnce;
      Round(roundings_[id], values + begin, std::min(kAtOnce, count - begin));
    });
  }

 private:
  std::vector<Rounding> roundings_;
  std::vector<bool> is_on_;
};

NoiseProbe::NoiseProbe(const graph::Model& model, const plan::ResolvedPlan& resolved,
                       const std::vector<size_t>& rows, size_t num_threads)
    : rounder_([&] {
        std::vector<Rounding> roundings;
        for (const size_t i : rows) {
          const plan::TensorPlan& row = resolved.plan.tensors[i];
          keys_.push_back(plan::ScaleKeyOf(row));
          roundings.push_back({resolved.scales.at(plan::ScaleKeyOf(row)),
                               formats::IntegerRange(row.Spec().element_type)});
        }
        return std::make_unique<Rounder>(std::move(roundings));
      }()),
      operators_(*rounder_) {
  // The model goes through a file, which ONNX Runtime maps. In memory the weights would be twice.
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "probe.onnx";
  WithPasses(model, resolved, rows).Save(path, graph::ExternalData::kAlways);
  runtime::SessionOptions options;
  options.num_threads = runtime::SessionThreads(num_threads);
  options.observers = &operators_;
  session_ = std::make_unique<runtime::Session>(path, options);
}

NoiseProbe::~NoiseProbe() = default;

std::vector<std::string> NoiseProbe::OutputNames() const {
  std::vector<std::string> names;
  for (const runtime::ValueDescription& output : session_->outputs()) names.push_back(output.name);
  return names;
}

void NoiseProbe::AddSample(std::vector<Tensor> inputs) {
  rounder_->Switch(std::vector<bool>(rounder_->size(), false));
  std::vector<Tensor> outputs = session_->Run(inputs);
  samples_.push_back({std::move(inputs), std::move(outputs)});
}

void NoiseProbe::SetScales(const plan::ScaleTable& scales) {
  for (size_t id = 0; id < keys_.size(); ++id) rounder_->SetParams(id, scales.at(keys_[id]));
}

OutputNoise NoiseProbe::Measure(const std::vector<bool>& is_rounded, size_t step) {
  BITPRESS_DCHECK(!samples_.empty() && is_rounded.size() == rounder_->size() && step >= 1);
  rounder_->Switch(is_rounded);
  const size_t num_outputs = session_->outputs().size();
  std::vector<std::vector<OutputError>> errors(num_outputs);
  for (size_t i = 0; i < samples_.size(); i += step) {
    const Sample& sample = samples_[i];
    const std::vector<Tensor> outputs = session_->Run(sample.inputs);
    for (size_t k = 0; k < num_outputs; ++k) {
      const Tensor& wanted = sample.outputs[k];
      if (wanted.type != DataType::kFloat || wanted.dims != outputs[k].dims) continue;
      errors[k].push_back(CompareOutputs(wanted.values<float>(), outputs[k].values<float>()));
    }
  }
  OutputNoise noise;
  for (const std::vector<OutputError>& of_output : errors) noise.push_back(MeanNoise(of_output));
  return noise;
}

}  // namespace bitpress::calibrate
