#include "calibrate/noise_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/output_error.h"
#include "calibrate/model_pieces.h"
#include "calibrate/piece_runs.h"
#include "calibrate/sample_runs.h"
#include "formats/reference.h"
#include "graph/extract.h"
#include "graph/stored_bytes.h"
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

// Makes the readers of a row read what the node `id` passes on. Returns its name.
std::string InsertPass(graph::Model& model, const Place& place, size_t id) {
  const std::string& value = place.row->value;
  const graph::ValueInfo info = model.InfoOf(value);
  std::string source = value;
  std::string target = model.FreshName(value + "_rounded");
  if (place.row->is_graph_output && place.producer) {
    // The output keeps its name, and so do the readers of the row.
    source = model.FreshName(value + "_float");
    target = value;
    model.Rename(value, source);
  }
  model.InsertNode({model.FreshNodeName(fmt::format("{}_rounding_{}", value, id)),
                    runtime::kObservePass,
                    runtime::kObserverDomain,
                    {source},
                    {target},
                    {{"id", static_cast<int64_t>(id)}}},
                   place.before, place.producer);
  for (graph::Use use : place.uses) use.node.set_input(use.input_index, target);
  model.SetInfo(target == value ? source : target, info);
  return target;
}

// Returns the model with a pass for each row, and the names of what the passes give.
std::pair<graph::Model, std::vector<std::string>> WithPasses(const graph::Model& original,
                                                             const plan::ResolvedPlan& resolved,
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
  std::vector<std::string> passed;
  for (size_t id = 0; id < places.size(); ++id) passed.push_back(InsertPass(model, places[id], id));
  return {std::move(model), std::move(passed)};
}

// The pieces of a model that runs begin with: so many that few runs compute much in vain, and so
// few that what crosses between them stays small.
constexpr uint64_t kNumPieces = 4;

ModelPieces CutForRuns(const graph::Model& model, const std::vector<std::string>& fetched,
                       bool in_pieces) {
  constexpr uint64_t kWhole = std::numeric_limits<uint64_t>::max();
  if (!in_pieces) return {model, fetched, kWhole};
  ModelPieces pieces(model, fetched, graph::MeasureParts(model).constants / kNumPieces + 1);
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (const std::string& value : pieces.piece(i).inputs) {
      // Nothing says what a session would have to take.
      if (model.InfoOf(value).type == DataType::kUndefined) return {model, fetched, kWhole};
    }
  }
  return pieces;
}

// Values between pieces that take more bytes than these for all samples are not kept.
constexpr uint64_t kMostBytesBetween = uint64_t{512} << 20;

// Makes the compared values and `besides`, outputs of the model, its outputs, and nothing else.
// Returns their names in it.
std::vector<std::string> FetchCompared(graph::Model& model,
                                       const std::vector<ComparedValue>& compared,
                                       const std::vector<std::string>& besides) {
  const plan::NodeIndex index(model);
  std::vector<std::string> fetched;
  for (const ComparedValue& value : compared) {
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
  for (const std::string& output : besides) {
    if (std::ranges::count(fetched, output) == 0) fetched.push_back(output);
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
                       const std::vector<size_t>& rows, size_t num_threads, bool in_pieces,
                       bool fetches_outputs)
    : compared_(ComparedValues(model)),
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
      num_threads_(runtime::SessionThreads(num_threads)),
      in_pieces_(in_pieces),
      inputs_(calibrate::InputsOf(model)) {
  const std::vector<std::string> outputs = model.OutputNames();
  // An output that nothing computes belongs to no piece.
  const bool are_computed = std::ranges::all_of(
      outputs, [&](const std::string& output) { return model.Producer(output).has_value(); });
  if (fetches_outputs && are_computed) outputs_ = outputs;
  Open(model, resolved, rows);
}

NoiseProbe::~NoiseProbe() = default;

void NoiseProbe::Open(const graph::Model& model, const plan::ResolvedPlan& resolved,
                      const std::vector<size_t>& rows) {
  pieces_.clear();  // their memory goes before the next ones take some
  runtime::SessionOptions options;
  options.num_threads = num_threads_;
  options.observers = &operators_;
  const auto open = [&](const graph::Model& part) {
    pieces_.push_back(
        {std::make_unique<runtime::Session>(runtime::Session::FromModel(part, options))});
  };
  auto [probed, passed] = WithPasses(model, resolved, rows);
  fetched_ = FetchCompared(probed, compared_, outputs_);
  const ModelPieces cut = CutForRuns(probed, fetched_, in_pieces_);
  piece_of_row_.clear();
  for (const std::string& value : passed) {
    piece_of_row_.push_back(cut.size() == 1 ? 0 : cut.PieceOf(value));
  }
  if (cut.size() == 1) return open(probed);
  for (size_t i = 0; i < cut.size(); ++i) {
    std::vector<std::string> outputs = cut.piece(i).outputs;
    for (const std::string& value : fetched_) {
      if (cut.PieceOf(value) == i && std::ranges::count(outputs, value) == 0) {
        outputs.push_back(value);
      }
    }
    open(graph::Extract(probed, cut.piece(i).inputs, outputs));
  }
}

std::string NoiseProbe::NameOf(size_t entry) const {
  const size_t compared = entries_.at(entry);
  if (compared_[compared].parts.empty()) return compared_[compared].Name();
  const auto first = std::ranges::find(entries_, compared);
  return fmt::format("part {} of {}", entry - static_cast<size_t>(first - entries_.begin()) + 1,
                     compared_[compared].Name());
}

const std::string& NoiseProbe::OutputOf(size_t entry) const {
  return compared_[entries_.at(entry)].output;
}

void NoiseProbe::UseWeights(const graph::Model& model, const plan::ResolvedPlan& resolved,
                            const std::vector<size_t>& rows) {
  BITPRESS_DCHECK(rows.size() == keys_.size());
  if (FetchesOutputs() && !has_weights_) float_pieces_ = std::move(pieces_);
  Open(model, resolved, rows);
  has_weights_ = true;
  num_bytes_between_ = 0;
  for (Sample& sample : samples_) {
    sample.rounded.clear();
    sample.between.clear();
  }
}

std::vector<Tensor> NoiseProbe::Run(const std::vector<Piece>& pieces, const Sample& sample,
                                    size_t first, std::vector<Tensor> before,
                                    std::map<std::string, Tensor>& between) {
  std::vector<Tensor> compared = std::move(before);
  compared.resize(fetched_.size());
  for (size_t i = first; i < pieces.size(); ++i) {
    ++num_piece_runs_;
    runtime::Session& session = *pieces[i].session;
    std::vector<Tensor> given;
    for (const runtime::ValueDescription& input : session.inputs()) {
      const auto at = std::ranges::find(inputs_, input.name, &runtime::ValueDescription::name);
      if (at != inputs_.end()) {
        given.push_back(sample.inputs[static_cast<size_t>(at - inputs_.begin())]);
      } else {
        const auto found = between.find(input.name);
        given.push_back(found != between.end() ? found->second : sample.between.at(input.name));
      }
    }
    std::vector<Tensor> outputs = session.Run(given);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const std::string& name = session.outputs()[k].name;
      const auto at = std::ranges::find(fetched_, name);
      if (at != fetched_.end()) compared[static_cast<size_t>(at - fetched_.begin())] = outputs[k];
      if (i + 1 < pieces.size()) between[name] = std::move(outputs[k]);
    }
  }
  return compared;
}

void NoiseProbe::RunWithoutRounding(Sample& sample) {
  std::vector<Tensor>& outputs = has_weights_ ? sample.rounded : sample.wanted;
  BITPRESS_DCHECK(!has_weights_ || !sample.wanted.empty());
  if (!outputs.empty()) return;
  rounder_->Switch(std::vector<bool>(rounder_->size(), false));
  sample.between.clear();
  std::map<std::string, Tensor> between;
  outputs = Run(pieces_, sample, 0, {}, between);
  uint64_t num_bytes = 0;
  for (const auto& [name, tensor] : between) num_bytes += tensor.bytes.size();
  if (num_bytes_between_ + num_bytes <= kMostBytesBetween) {
    num_bytes_between_ += num_bytes;
    sample.between = std::move(between);
  }
  if (!entries_.empty()) return;
  for (size_t k = 0; k < compared_.size(); ++k) {
    ForgetEqualParts(compared_[k], outputs[k]);
    entries_.insert(entries_.end(), std::max<size_t>(compared_[k].parts.size(), 1), k);
  }
}

std::vector<Tensor> NoiseProbe::OutputsOf(const std::vector<Tensor>& fetched) const {
  std::vector<Tensor> outputs;
  for (const std::string& output : outputs_) {
    const auto at = std::ranges::find(fetched_, output);
    outputs.push_back(fetched[static_cast<size_t>(at - fetched_.begin())]);
  }
  return outputs;
}

const std::vector<Tensor>& NoiseProbe::WantedOutputs(size_t sample) {
  Sample& wanted = samples_.at(sample);
  if (wanted.outputs.empty() && !wanted.wanted.empty()) {
    wanted.outputs = OutputsOf(wanted.wanted);
  } else if (wanted.outputs.empty()) {
    BITPRESS_DCHECK(!has_weights_ || !float_pieces_.empty());
    rounder_->Switch(std::vector<bool>(rounder_->size(), false));
    std::map<std::string, Tensor> between;
    wanted.outputs = OutputsOf(Run(has_weights_ ? float_pieces_ : pieces_, wanted, 0, {}, between));
  }
  return wanted.outputs;
}

std::vector<Tensor> NoiseProbe::RoundedOutputs(const std::vector<bool>& is_rounded, size_t sample) {
  rounder_->Switch(is_rounded);
  std::map<std::string, Tensor> between;
  return OutputsOf(Run(pieces_, samples_.at(sample), 0, {}, between));
}

void NoiseProbe::SetScales(const plan::ScaleTable& scales) {
  for (size_t id = 0; id < keys_.size(); ++id) rounder_->SetParams(id, scales.at(keys_[id]));
}

NoiseProbe::Measured NoiseProbe::Measure(const std::vector<bool>& is_rounded,
                                         std::span<const size_t> samples) {
  BITPRESS_DCHECK(is_rounded.size() == rounder_->size());
  size_t first = pieces_.size();
  for (size_t id = 0; id < is_rounded.size(); ++id) {
    if (is_rounded[id]) first = std::min(first, piece_of_row_[id]);
  }
  const bool is_any_rounded = first < pieces_.size();
  Measured measured;
  for (const size_t i : samples) {
    Sample& sample = samples_.at(i);
    RunWithoutRounding(sample);
    const std::vector<Tensor>& base = has_weights_ ? sample.rounded : sample.wanted;
    std::vector<Tensor> found;
    if (is_any_rounded) {
      rounder_->Switch(is_rounded);
      std::map<std::string, Tensor> between;
      found = Run(pieces_, sample, sample.between.empty() ? 0 : first, base, between);
    }
    const std::vector<Tensor>& outputs = is_any_rounded ? found : base;
    const auto add = [&](ComparedErrors& errors, const std::vector<Tensor>& wanted) {
      errors.resize(entries_.size());
      size_t entry = 0;
      for (size_t k = 0; k < compared_.size(); ++k) {
        for (const OutputError& error : ErrorsOf(compared_[k], wanted[k], outputs[k])) {
          errors[entry++].push_back(error);
        }
      }
    };
    add(measured.of_rounding, base);
    if (has_weights_) add(measured.in_all, sample.wanted);
  }
  return measured;
}

double ToDb(double noise) {
  return noise > 0 ? 10 * std::log10(1 / noise) : plan::GuardReport::kNoNoiseDb;
}

OutputNoise NoiseOf(const ComparedErrors& errors) {
  OutputNoise noise;
  for (const std::vector<OutputError>& of_entry : errors) noise.push_back(MeanNoise(of_entry));
  return noise;
}

namespace {

// The samples that AddSpreadSamples takes, by their positions in the source.
class SpreadPlaces {
 public:
  SpreadPlaces(size_t num_samples, size_t wanted)
      : wanted_(wanted), step_(std::max<size_t>(1, num_samples / wanted)) {}
  bool Has(size_t position) const {
    const size_t part = position / step_;
    // A number below the step that has no pattern over the parts.
    return part < wanted_ &&
           position % step_ == std::mt19937(static_cast<uint32_t>(part))() % step_;
  }

 private:
  size_t wanted_, step_;
};

// Calls take(inputs, is_spread) with each sample of the source.
void ForEachSample(
    const NoiseProbe& probe, data::Source& source, size_t wanted,
    const std::function<void(const std::vector<Tensor>& inputs, bool is_spread)>& take) {
  const SpreadPlaces places(source.num_samples(), wanted);
  size_t position = 0;
  RunSamples(source, probe.inputs(), 1,
             [&](const std::vector<Tensor>& inputs, size_t count) {
               take(inputs, places.Has(position));
               position += count;
             },
             "", {});
}

}  // namespace

void AddSpreadSamples(NoiseProbe& probe, data::Source& source, size_t wanted) {
  ForEachSample(probe, source, wanted, [&](const std::vector<Tensor>& inputs, bool is_spread) {
    if (is_spread) probe.AddSample(inputs);
  });
  if (probe.num_samples() == 0) {
    Fail(ErrorCode::kInvalidArgument, "there are no samples to measure roundings with");
  }
}

void EachOtherSample(const NoiseProbe& probe, data::Source& source, size_t wanted,
                     const std::function<void(const std::vector<Tensor>& inputs)>& take) {
  ForEachSample(probe, source, wanted, [&](const std::vector<Tensor>& inputs, bool is_spread) {
    if (!is_spread) take(inputs);
  });
}

}  // namespace bitpress::calibrate
