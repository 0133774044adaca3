#include "search/sensitivity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/words.h"
#include "calibrate/sample_runs.h"
#include "runtime/open_model.h"
#include "search/journal.h"
#include "search/layer_probe.h"

namespace bitpress::search {
namespace {

using evaluate::LossMeter;
using evaluate::Output;

struct Sample {
  std::vector<Tensor> inputs;
  size_t count = 0;
  std::vector<int64_t> labels;  // label of each sample, or empty
};

// A source that keeps the labels of the samples that were read.
class LabelledSource : public data::Source {
 public:
  explicit LabelledSource(data::Source& source) : source_(source) {}

  size_t num_samples() const override { return source_.num_samples(); }
  bool has_labels() const override { return source_.has_labels(); }
  void Rewind() override {
    source_.Rewind();
    labels_.clear();
    num_taken_ = 0;
  }
  std::optional<data::Batch> Next(size_t max_samples) override {
    std::optional<data::Batch> batch = source_.Next(max_samples);
    if (batch) labels_.insert(labels_.end(), batch->labels.begin(), batch->labels.end());
    return batch;
  }
  // Returns the labels of the next `count` samples.
  std::vector<int64_t> TakeLabels(size_t count) {
    if (num_taken_ + count > labels_.size()) return {};
    const auto begin = labels_.begin() + static_cast<std::ptrdiff_t>(num_taken_);
    num_taken_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  data::Source& source_;
  std::vector<int64_t> labels_;
  size_t num_taken_ = 0;
};

// The samples, held as long as they are few.
class Samples {
 public:
  Samples(data::Source& source, std::vector<runtime::ValueDescription> inputs)
      : source_(source), inputs_(std::move(inputs)) {}

  void ForEach(const std::function<void(const Sample& sample)>& run) {
    if (is_complete_) {
      std::ranges::for_each(held_, run);
      return;
    }
    constexpr size_t kAtOnce = 8;
    uint64_t bytes = 0;
    held_.clear();
    const auto run_one = [&](const std::vector<Tensor>& inputs, size_t count) {
      for (const Tensor& input : inputs) bytes += input.bytes.size();
      if (bytes > kMostHeldBytes) held_.clear();
      Sample sample{inputs, count, source_.TakeLabels(count)};
      run(sample);
      if (bytes <= kMostHeldBytes) held_.push_back(std::move(sample));
    };
    num_samples_ = calibrate::RunSamples(source_, inputs_, kAtOnce, run_one, "", {}).num_samples;
    is_complete_ = bytes <= kMostHeldBytes;
    if (num_samples_ == 0) {
      Fail(ErrorCode::kInvalidArgument, "there are no samples to measure with");
    }
  }

  size_t num_samples() const { return num_samples_; }

 private:
  LabelledSource source_;
  std::vector<runtime::ValueDescription> inputs_;
  std::vector<Sample> held_;
  bool is_complete_ = false;
  size_t num_samples_ = 0;
};

// The energies of a layer's error and of its output.
struct Energies {
  double error = 0;
  double signal = 0;

  void Add(const std::vector<Tensor>& reference, const std::vector<Tensor>& found) {
    for (size_t i = 0; i < reference.size(); ++i) {
      if (reference[i].type != DataType::kFloat) {
        AddNumbers(evaluate::ToOutput(reference[i]).values, evaluate::ToOutput(found[i]).values);
      } else {
        AddNumbers(reference[i].values<float>(), found[i].values<float>());
      }
    }
  }
  double Ratio() const { return error == 0 ? 0 : error / std::max(signal, 1e-300); }

 private:
  // A result that is not finite counts as 0. The two have one shape: that of a layer's output
  // follows from the shapes of its inputs, which no format changes.
  template <typename Wanted, typename Found>
  void AddNumbers(const Wanted& wanted, const Found& found) {
    BITPRESS_DCHECK(wanted.size() == found.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double reference = wanted[i];
      if (!std::isfinite(reference)) continue;
      const double value = std::isfinite(found[i]) ? static_cast<double>(found[i]) : 0.0;
      error += (value - reference) * (value - reference);
      signal += reference * reference;
    }
  }
};

// One layer with its variants.
class LayerRun {
 public:
  LayerRun(const graph::Model& model, const graph::Node& node, const SearchLayer& layer,
           const Space& space, const std::vector<plan::ResolvedPlan>& parts,
           const SensitivityOptions& options, ThreadPool& pool)
      : space_(space),
        method_(options.method),
        output_index_(options.output_index),
        probe_(model, node, options.num_threads),
        float_(probe_.OpenFloat()),
        variants_(parts.size()),
        local_(parts.size()),
        meters_(parts.size()) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!layer.has_part[i]) continue;
      variants_[i] = probe_.OpenVariant(parts[i], LayerProbe::Purpose::kValues, pool);
    }
  }

  void Run(Samples& samples) {
    bool is_first = true;
    samples.ForEach([&](const Sample& sample) {
      RunSample(sample, is_first);
      is_first = false;
    });
  }

  double num_macs() const { return num_macs_; }

  // Returns the time of the float layer in ms, and fills in those of its variants in `losses`. Each
  // is the median of several runs of the last sample, in turns.
  double MeasureTimes(const std::vector<plan::ResolvedPlan>& parts, ThreadPool& pool,
                      std::vector<PartLoss>& losses) {
    constexpr size_t kNumRuns = 9;
    std::vector<double> float_times;
    std::vector<std::vector<double>> times(variants_.size());
    std::vector<std::optional<runtime::Session>> timed(variants_.size());
    for (size_t i = 0; i < timed.size(); ++i) {
      if (!variants_[i]) continue;
      timed[i] = probe_.OpenVariant(parts[i], LayerProbe::Purpose::kTime, pool);
      TimeOf(*timed[i]);  // the first run allocates
    }
    for (size_t run = 0; run < kNumRuns; ++run) {
      float_times.push_back(TimeOf(float_));
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
      if (method_ != Method::kFast) losses[i].exact = meters_[i].Result();
    }
    if (method_ == Method::kExact) return losses;
    for (const Side side : {Side::kBoth, Side::kWeights, Side::kActivations}) Carry(side, losses);
    return losses;
  }

 private:
  void RunSample(const Sample& sample, bool is_first) {
    probe_.SetSample(sample.inputs);
    const std::vector<Tensor> wanted = probe_.RunLayer(float_);
    if (is_first) num_macs_ = probe_.CountMacs(wanted) / static_cast<double>(sample.count);
    // The rest of the model computes the reference too, because a difference between its kernels
    // and those of the whole model is no loss.
    const std::vector<Output> reference = RunRest(wanted);
    std::vector<std::vector<Tensor>> results(variants_.size());
    for (size_t i = 0; i < variants_.size(); ++i) {
      if (!variants_[i]) continue;
      results[i] = probe_.RunLayer(*variants_[i]);
      local_[i].Add(wanted, results[i]);
    }
    if (is_first && method_ != Method::kExact) ChooseGauges();
    for (size_t i = 0; i < variants_.size(); ++i) {
      const bool is_carried = method_ != Method::kFast || gauges_.contains(i);
      if (!variants_[i] || !is_carried) continue;
      meters_[i].Add(reference, RunRest(std::move(results[i])), sample.count, sample.labels);
    }
  }

  // Returns the outputs of the model that losses are about.
  std::vector<Output> RunRest(std::vector<Tensor> layer_outputs) {
    std::vector<Output> outputs = probe_.RunRest(std::move(layer_outputs));
    if (!output_index_) return outputs;
    std::vector<Output> one;
    one.push_back(std::move(outputs.at(*output_index_)));
    return one;
  }

  double TimeOf(runtime::Session& session) const {
    const auto start = std::chrono::steady_clock::now();
    probe_.RunLayer(session);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    return time.count();
  }

  // Chooses the parts that the gain is measured with: for each side the one with the middle error
  // at the first sample.
  void ChooseGauges() {
    for (const Side side : {Side::kBoth, Side::kWeights, Side::kActivations}) {
      std::vector<std::pair<double, size_t>> errors;
      for (size_t i = 0; i < variants_.size(); ++i) {
        if (!variants_[i] || space_.parts[i].side != side || local_[i].error == 0) continue;
        errors.emplace_back(local_[i].Ratio(), i);
      }
      if (errors.empty()) continue;
      std::ranges::sort(errors);
      gauges_.insert(errors[errors.size() / 2].second);
    }
  }

  // Fills in fast_noise of the parts of a side.
  void Carry(Side side, std::vector<PartLoss>& losses) const {
    double gain = 0;
    for (const size_t i : gauges_) {
      if (space_.parts[i].side != side || losses[i].local_noise == 0) continue;
      gain = meters_[i].Result().noise / losses[i].local_noise;
    }
    for (size_t i = 0; i < losses.size(); ++i) {
      if (!losses[i].is_there || space_.parts[i].side != side) continue;
      losses[i].fast_noise = gain * losses[i].local_noise;
    }
  }

  const Space& space_;
  Method method_;
  std::optional<size_t> output_index_;
  LayerProbe probe_;
  runtime::Session float_;
  std::vector<std::optional<runtime::Session>> variants_;  // one for each part that is there
  std::vector<Energies> local_;
  std::vector<LossMeter> meters_;
  double num_macs_ = 0;
  std::set<size_t> gauges_;  // parts that the gain is measured with
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

Sensitivity MeasureSensitivity(const graph::Model& model, const SearchLayers& layers,
                               const Space& space, const std::vector<plan::ResolvedPlan>& parts,
                               data::Source& source, const SensitivityOptions& options,
                               ThreadPool& pool) {
  Sensitivity sensitivity;
  sensitivity.left_out = layers.left_out;
  Samples samples(source, runtime::DescribeInputs(model));
  MeasurementJournal journal(options.journal, options.key);
  const plan::NodeIndex index(model);
  for (const SearchLayer& layer : layers.found) {
    if (options.progress) {
      options.progress("sensitivity", sensitivity.layers.size(), layers.found.size());
    }
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
    std::optional<LayerRun> run;
    try {
      run.emplace(model, index.Find({layer.node, layer.op_type, 0}), layer, space, parts, options,
                  pool);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kIo) throw;  // the disk, not the layer
      sensitivity.left_out.emplace_back(layer.node, error.what());
      continue;
    }
    WithContext(fmt::format("layer '{}'", layer.node), [&] { run->Run(samples); });
    LayerLoss loss{layer.node, layer.op_type, run->num_macs(), std::nullopt, run->Result()};
    if (options.measures_time) loss.time_ms = run->MeasureTimes(parts, pool, loss.parts);
    journal.Add(layer.node, ToJson(loss));
    sensitivity.layers.push_back(std::move(loss));
  }
  if (options.progress) options.progress("sensitivity", layers.found.size(), layers.found.size());
  sensitivity.num_samples =
      samples.num_samples() > 0 ? samples.num_samples() : source.num_samples();
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
