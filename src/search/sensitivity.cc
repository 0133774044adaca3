#include "search/sensitivity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/output_error.h"
#include "base/words.h"
#include "evaluate/outputs.h"
#include "runtime/describe_inputs.h"
#include "search/held_samples.h"
#include "search/journal.h"
#include "search/layer_probe.h"
#include "search/network_probe.h"
#include "search/output_meter.h"

namespace bitpress::search {
namespace {

// The energies of a layer's error and of its output over all samples.
struct Energies {
  double error = 0;
  double signal = 0;

  // The two have one shape: that of a layer's output follows from the shapes of its inputs, which
  // no format changes.
  void Add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found) {
    for (size_t i = 0; i < reference.size(); ++i) {
      if (reference[i].bytes.empty()) continue;
      if (reference[i].type == DataType::kFloat) {
        Add(CompareOutputs(reference[i].values<float>(), found[i].values<float>()));
      } else {
        const std::vector<double> wanted = evaluate::ToOutput(reference[i]).values;
        const std::vector<double> values = evaluate::ToOutput(found[i]).values;
        Add(CompareOutputs<double>(wanted, values));
      }
    }
  }
  double Ratio() const { return error == 0 ? 0 : error / std::max(signal, 1e-300); }

 private:
  void Add(const OutputError& output) {
    error += output.has_lost() ? std::numeric_limits<double>::infinity() : output.error;
    signal += output.signal;
  }
};

// One layer with its variants.
class LayerRun {
 public:
  // `layer_index` is the layer's position in `network`.
  LayerRun(NetworkProbe& network, size_t layer_index, LayerProbe probe, const SearchLayer& layer,
           const Space& space, const std::vector<plan::ResolvedPlan>& parts,
           const CountedOutputs& counted, const SensitivityOptions& options, ThreadPool& pool)
      : network_(network),
        layer_index_(layer_index),
        probe_(std::move(probe)),
        space_(space),
        method_(options.method),
        counted_(counted),
        num_threads_(options.num_threads),
        variants_(parts.size()),
        local_(parts.size()) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!layer.has_part[i]) continue;
      variants_[i] = probe_.OpenVariant(parts[i], LayerProbe::Purpose::kValues, pool);
    }
  }

  void RunSample(const HeldSample& sample) {
    std::vector<std::vector<Tensor>> results(variants_.size());
    LayerValues values;
    // The run that shows the layer's inputs goes on with one of the results.
    std::optional<size_t> first;
    const auto run_variants = [&](const LayerValues& known) {
      for (size_t i = 0; i < variants_.size(); ++i) {
        if (!variants_[i]) continue;
        results[i] = probe_.Run(*variants_[i], known.inputs);
        if (!first) first = i;
      }
      if (meters_.empty()) ChooseMeters(known.outputs, results);
      if (!meters_.empty()) first = meters_.begin()->first;
      return results[*first];
    };
    std::vector<Tensor> outputs =
        network_.RunWith(sample.inputs, layer_index_, run_variants, &values);
    if (num_macs_ == 0) {
      num_macs_ =
          probe_.CountMacs(values.inputs, values.outputs) / static_cast<double>(sample.count);
    }
    for (size_t i = 0; i < variants_.size(); ++i) {
      if (variants_[i]) local_[i].Add(values.outputs, results[i]);
    }
    for (auto& [part, meter] : meters_) {
      if (part != *first) {
        const auto give = [&, index = part](const LayerValues&) { return results[index]; };
        outputs = network_.RunWith(sample.inputs, layer_index_, give, nullptr);
      }
      meter.Add(sample.inputs, sample.reference, counted_.Take(std::move(outputs)), sample.count,
                sample.labels);
    }
    last_inputs_ = std::move(values.inputs);
  }

  double num_macs() const { return num_macs_; }

  // Returns the time of the float layer in ms, and fills in those of its variants in `losses`. Each
  // is the median of several runs of the last sample, in turns. REQUIRES: a sample ran.
  double MeasureTimes(const std::vector<plan::ResolvedPlan>& parts, ThreadPool& pool,
                      std::vector<PartLoss>& losses) {
    constexpr size_t kNumRuns = 9;
    std::vector<double> float_times;
    std::vector<std::vector<double>> times(variants_.size());
    std::vector<std::optional<runtime::Session>> timed(variants_.size());
    runtime::Session as_float = probe_.OpenFloat();
    TimeOf(as_float);  // the first run allocates
    for (size_t i = 0; i < timed.size(); ++i) {
      if (!variants_[i]) continue;
      timed[i] = probe_.OpenVariant(parts[i], LayerProbe::Purpose::kTime, pool);
      TimeOf(*timed[i]);
    }
    for (size_t run = 0; run < kNumRuns; ++run) {
      float_times.push_back(TimeOf(as_float));
      for (size_t i = 0; i < timed.size(); ++i) {
        if (timed[i]) times[i].push_back(TimeOf(*timed[i]));
      }
    }
    for (size_t i = 0; i < timed.size(); ++i) {
      if (timed[i]) losses[i].time_ms = evaluate::Median(times[i]);
    }
    return evaluate::Median(float_times);
  }

  std::vector<PartLoss> Result() const {
    std::vector<PartLoss> losses(variants_.size());
    for (size_t i = 0; i < variants_.size(); ++i) {
      if (!variants_[i]) continue;
      losses[i].is_there = true;
      losses[i].local_noise = local_[i].Ratio();
      if (method_ != Method::kFast) losses[i].exact = meters_.at(i).Result();
    }
    if (method_ == Method::kExact) return losses;
    for (const Side side : kSides) Carry(side, losses);
    return losses;
  }

 private:
  static constexpr std::array<Side, 3> kSides{Side::kBoth, Side::kWeights, Side::kActivations};

  double TimeOf(runtime::Session& session) const {
    const auto start = std::chrono::steady_clock::now();
    probe_.Run(session, last_inputs_);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    return time.count();
  }

  // Chooses the parts whose results the rest of the model runs with, from the first sample: all of
  // them, or the one with the middle error for each side (the gauges). Outputs of the float layer
  // that are not known yet are empty.
  void ChooseMeters(const std::vector<Tensor>& outputs,
                    const std::vector<std::vector<Tensor>>& results) {
    std::vector<double> errors(variants_.size());
    for (size_t i = 0; i < variants_.size(); ++i) {
      if (!variants_[i]) continue;
      Energies energies;
      energies.Add(outputs, results[i]);
      errors[i] = energies.Ratio();
      if (method_ != Method::kFast) meters_.try_emplace(i, counted_, num_threads_);
    }
    for (const Side side : kSides) {
      std::vector<std::pair<double, size_t>> of_side;
      for (size_t i = 0; i < errors.size(); ++i) {
        // A part that loses values at once says nothing about those that do not.
        const bool is_gauge = errors[i] > 0 && std::isfinite(errors[i]);
        if (is_gauge && space_.parts[i].side == side) of_side.emplace_back(errors[i], i);
      }
      if (of_side.empty()) continue;
      std::ranges::sort(of_side);
      gauges_.insert(of_side[of_side.size() / 2].second);
    }
    for (const size_t i : gauges_) meters_.try_emplace(i, counted_, num_threads_);
  }

  // Fills in fast_noise of the parts of a side.
  void Carry(Side side, std::vector<PartLoss>& losses) const {
    double gain = 0;
    for (const size_t i : gauges_) {
      const double local = losses[i].local_noise;
      if (space_.parts[i].side != side || local == 0 || std::isinf(local)) continue;
      gain = meters_.at(i).Result().noise / local;
      // Outputs that lost values are all error. Smaller local errors may still be smaller ones.
      if (std::isinf(gain)) gain = 1 / local;
    }
    for (size_t i = 0; i < losses.size(); ++i) {
      if (!losses[i].is_there || space_.parts[i].side != side) continue;
      const double local = losses[i].local_noise;
      losses[i].fast_noise = std::isinf(local) ? local : gain * local;
    }
  }

  NetworkProbe& network_;
  size_t layer_index_;
  LayerProbe probe_;
  const Space& space_;
  Method method_;
  const CountedOutputs& counted_;
  size_t num_threads_;
  std::vector<std::optional<runtime::Session>> variants_;  // one for each part that is there
  std::vector<Energies> local_;
  std::map<size_t, OutputMeter> meters_;  // of the parts that the rest of the model runs with
  std::set<size_t> gauges_;               // parts that the gain is measured with
  double num_macs_ = 0;
  std::vector<Tensor> last_inputs_;
};

// The model that the layers are changed in, with its samples. It is opened at its first use,
// because a journal may know all layers.
class Network {
 public:
  Network(const graph::Model& model, const SearchLayers& layers, data::Source& source,
          const SensitivityOptions& options)
      : model_(model),
        num_threads_(options.num_threads),
        counted_(options.output_index, options.tokens),
        samples_(source, runtime::DescribeInputs(model)) {
    const plan::NodeIndex index(model);
    for (const SearchLayer& layer : layers.found) {
      nodes_.push_back(index.Find({layer.node, layer.op_type, 0}));
    }
  }

  NetworkProbe& probe() {
    if (!probe_) probe_.emplace(model_, nodes_, num_threads_);
    return *probe_;
  }
  const std::vector<graph::Node>& nodes() const { return nodes_; }
  const CountedOutputs& counted() const { return counted_; }
  size_t num_samples() const { return samples_.num_samples(); }

  void ForEachSample(const std::function<void(const HeldSample&)>& run) {
    // The probe computes the reference too, because a difference between its kernels and those of
    // the whole model is no loss.
    const auto make_reference = [&](const std::vector<Tensor>& inputs) {
      std::vector<Tensor> outputs = probe().Run(inputs);
      counted_.Look(inputs, probe().OutputNames(), outputs);
      return counted_.Take(std::move(outputs));
    };
    samples_.ForEach(make_reference, run);
  }

 private:
  const graph::Model& model_;
  size_t num_threads_;
  CountedOutputs counted_;
  std::vector<graph::Node> nodes_;
  HeldSamples samples_;
  std::optional<NetworkProbe> probe_;
};

// Returns the ranks of values, from 1. Equal values share the mean of their ranks.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

}  // namespace

std::string_view MethodName(Method method) { return WordOf<Method>(kMethodWords, method); }

Method ParseMethod(std::string_view word) {
  return ParseWord<Method>(kMethodWords, word, "method");
}

Sensitivity Unmeasured(const SearchLayers& layers) {
  Sensitivity sensitivity;
  for (const SearchLayer& layer : layers.found) {
    LayerLoss& loss = sensitivity.layers.emplace_back();
    loss.node = layer.node;
    loss.op_type = layer.op_type;
    for (const bool is_there : layer.has_part) loss.parts.emplace_back().is_there = is_there;
  }
  return sensitivity;
}

Sensitivity MeasureSensitivity(const graph::Model& model, const SearchLayers& layers,
                               const Space& space, const std::vector<plan::ResolvedPlan>& parts,
                               data::Source& source, const SensitivityOptions& options,
                               ThreadPool& pool) {
  Sensitivity sensitivity;
  sensitivity.left_out = layers.left_out;
  MeasurementJournal journal(options.journal, options.key);
  Network network(model, layers, source, options);
  const auto [begin, end] = options.layers.RangeIn(layers.found.size());
  for (size_t i = begin; i < end; ++i) {
    const SearchLayer& layer = layers.found[i];
    if (options.progress) options.progress("sensitivity", i - begin, end - begin);
    const auto read = [&](const nlohmann::ordered_json& json) {
      LayerLoss loss = LayerLossFromJson(json);
      CheckIsComplete(loss, layer, options);
      return loss;
    };
    if (std::optional<LayerLoss> known = journal.Find(layer.node, read)) {
      sensitivity.layers.push_back(*std::move(known));
      ++sensitivity.num_resumed;
      continue;
    }
    if (const std::string& why_not = network.probe().WhyNot(i); !why_not.empty()) {
      sensitivity.left_out.emplace_back(layer.node, why_not);
      continue;
    }
    WithContext(fmt::format("layer '{}'", layer.node), [&] {
      LayerRun run(network.probe(), i, LayerProbe(model, network.nodes()[i], options.num_threads),
                   layer, space, parts, network.counted(), options, pool);
      network.ForEachSample([&](const HeldSample& sample) { run.RunSample(sample); });
      LayerLoss loss{layer.node,   layer.op_type, run.num_macs(),
                     std::nullopt, run.Result(),  network.counted().are_logits()};
      if (options.measures_time) loss.time_ms = run.MeasureTimes(parts, pool, loss.parts);
      journal.Add(layer.node, ToJson(loss));
      sensitivity.layers.push_back(std::move(loss));
    });
  }
  if (options.progress) options.progress("sensitivity", end - begin, end - begin);
  sensitivity.num_samples =
      network.num_samples() > 0 ? network.num_samples() : source.num_samples();
  return sensitivity;
}

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  BITPRESS_DCHECK(a.size() == b.size() && a.size() >= 2);
  const std::vector<double> ranks_a = RanksOf(a);
  const std::vector<double> ranks_b = RanksOf(b);
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    square_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    square_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  return square_a == 0 || square_b == 0 ? 0 : product / std::sqrt(square_a * square_b);
}

std::optional<double> RankCorrelation(const Sensitivity& sensitivity) {
  std::vector<double> fast, exact;
  for (const LayerLoss& layer : sensitivity.layers) {
    for (const PartLoss& part : layer.parts) {
      if (!part.fast_noise || !part.exact) continue;
      fast.push_back(*part.fast_noise);
      exact.push_back(part.exact->noise);
    }
  }
  if (fast.size() < 2) return std::nullopt;
  return RankCorrelation(fast, exact);
}

}  // namespace bitpress::search
