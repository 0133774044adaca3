#include "calibrate/noise_probe.h"

#include <algorithm>
#include <filesystem>
#include <optional>
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
  const auto round = [&](float* at, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      const float quotient = at[i] / scale;
      const float steps = quotient == quotient ? quotient : 0.0F;
      at[i] = ((std::min(std::max(steps, least), most) + kMagic) - kMagic) * scale;
    }
  };
  // Compilers make vectors of loops of a known length.
  constexpr size_t kAtOnce = 16;
  size_t done = 0;
  for (; done + kAtOnce <= count; done += kAtOnce) round(values + done, kAtOnce);
  round(values + done, count - done);
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

// Makes the judged values outputs of a model, and nothing else. Returns their names in it.
std::vector<std::string> FetchJudged(graph::Model& model, const std::vector<JudgedValue>& judged) {
  const plan::NodeIndex index(model);
  std::vector<std::string> fetched;
  for (const JudgedValue& value : judged) {
    // A reader may get the value rounded, under another name.
    fetched.push_back(
        value.reader ? index.Find(*value.reader).input(static_cast<size_t>(value.reader->input))
                     : value.value);
    const std::vector<std::string> outputs = model.OutputNames();
    if (std::ranges::count(outputs, fetched.back()) == 0) {
      model.SetInfo(fetched.back(), model.InfoOf(value.value));
      model.AddOutput(fetched.back());
    }
  }
  for (const std::string& output : model.OutputNames()) {
    if (std::ranges::count(fetched, output) == 0) model.RemoveOutput(output);
  }
  return fetched;
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
    : judged_(JudgedValues(model)),
      rounder_([&] {
        std::vector<Rounding> roundings;
        for (const size_t i : rows) {
          const plan::TensorPlan& row = resolved.plan.tensors[i];
          keys_.push_back(plan::ScaleKeyOf(row));
          roundings.push_back({resolved.scales.at(plan::ScaleKeyOf(row)),
                               formats::IntegerRange(row.Spec().element_type)});
        }
        return std::make_unique<Rounder>(std::move(roundings));
      }()),
      operators_(*rounder_),
      num_threads_(runtime::SessionThreads(num_threads)) {
  Open(model, resolved, rows);
}

NoiseProbe::~NoiseProbe() = default;

void NoiseProbe::Open(const graph::Model& model, const plan::ResolvedPlan& resolved,
                      const std::vector<size_t>& rows) {
  session_.reset();  // its memory goes before the next one takes some
  // The model goes through a file, which ONNX Runtime maps. In memory the weights would be twice.
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "probe.onnx";
  {
    graph::Model probed = WithPasses(model, resolved, rows);
    fetched_ = FetchJudged(probed, judged_);
    probed.Save(path, graph::ExternalData::kAlways);
  }
  runtime::SessionOptions options;
  options.num_threads = num_threads_;
  options.observers = &operators_;
  session_ = std::make_unique<runtime::Session>(path, options);
}

std::string NoiseProbe::NameOf(size_t entry) const {
  const size_t judged = entries_.at(entry);
  if (judged_[judged].parts.empty()) return judged_[judged].Name();
  const auto first = std::ranges::find(entries_, judged);
  return fmt::format("part {} of {}", entry - static_cast<size_t>(first - entries_.begin()) + 1,
                     judged_[judged].Name());
}

const std::string& NoiseProbe::OutputOf(size_t entry) const {
  return judged_[entries_.at(entry)].output;
}

void NoiseProbe::UseWeights(const graph::Model& model, const plan::ResolvedPlan& resolved,
                            const std::vector<size_t>& rows) {
  BITPRESS_DCHECK(!has_weights_ && rows.size() == keys_.size());
  Open(model, resolved, rows);
  has_weights_ = true;
}

std::vector<Tensor> NoiseProbe::Run(const Sample& sample) {
  ++num_runs_;
  std::vector<Tensor> outputs = session_->Run(sample.inputs);
  std::vector<Tensor> judged;
  const std::vector<runtime::ValueDescription>& names = session_->outputs();
  for (const std::string& name : fetched_) {
    const auto at = std::ranges::find(names, name, &runtime::ValueDescription::name);
    judged.push_back(std::move(outputs[static_cast<size_t>(at - names.begin())]));
  }
  return judged;
}

void NoiseProbe::RunWithoutRounding(Sample& sample) {
  std::vector<Tensor>& outputs = has_weights_ ? sample.rounded : sample.wanted;
  BITPRESS_DCHECK(!has_weights_ || !sample.wanted.empty());
  if (!outputs.empty()) return;
  rounder_->Switch(std::vector<bool>(rounder_->size(), false));
  outputs = Run(sample);
  if (!entries_.empty()) return;
  for (size_t k = 0; k < judged_.size(); ++k) {
    ForgetEqualParts(judged_[k], outputs[k]);
    entries_.insert(entries_.end(), std::max<size_t>(judged_[k].parts.size(), 1), k);
  }
}

void NoiseProbe::SetScales(const plan::ScaleTable& scales) {
  for (size_t id = 0; id < keys_.size(); ++id) rounder_->SetParams(id, scales.at(keys_[id]));
}

NoiseProbe::Measured NoiseProbe::Measure(const std::vector<bool>& is_rounded,
                                         std::span<const size_t> samples) {
  BITPRESS_DCHECK(is_rounded.size() == rounder_->size());
  const bool is_any_rounded = std::ranges::count(is_rounded, true) > 0;
  Measured measured;
  for (const size_t i : samples) {
    Sample& sample = samples_.at(i);
    RunWithoutRounding(sample);
    const std::vector<Tensor>& base = has_weights_ ? sample.rounded : sample.wanted;
    std::vector<Tensor> found;
    if (is_any_rounded) {
      rounder_->Switch(is_rounded);
      found = Run(sample);
    }
    const std::vector<Tensor>& outputs = is_any_rounded ? found : base;
    const auto add = [&](JudgedErrors& errors, const std::vector<Tensor>& wanted) {
      errors.resize(entries_.size());
      size_t entry = 0;
      for (size_t k = 0; k < judged_.size(); ++k) {
        for (const OutputError& error : ErrorsOf(judged_[k], wanted[k], outputs[k])) {
          errors[entry++].push_back(error);
        }
      }
    };
    add(measured.of_rounding, base);
    if (has_weights_) add(measured.in_all, sample.wanted);
  }
  return measured;
}

OutputNoise NoiseOf(const JudgedErrors& errors) {
  OutputNoise noise;
  for (const std::vector<OutputError>& of_entry : errors) noise.push_back(MeanNoise(of_entry));
  return noise;
}

}  // namespace bitpress::calibrate
