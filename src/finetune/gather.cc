#include "finetune/gather.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "finetune/layer_tuner.h"
#include "kernels/half.h"
#include "runtime/observers.h"

namespace bitpress::finetune {
namespace {

// The indices of the values that one reading of a layer multiplies and gives. Nothing: the output
// is not observed.
using ReadingValues = std::pair<size_t, std::optional<size_t>>;

// A value of one sample, as floats.
struct Activation {
  std::vector<int64_t> dims;
  std::vector<float> values;
  bool is_there = false;
};

// The options of one layer's accumulators.
struct LayerOptions {
  MomentOptions learned;
  std::optional<MomentOptions> held_back;  // null: no run is held back

  LayerOptions(const LinearLayer& layer, const GatherOptions& options) {
    learned.num_positions = options.num_positions;
    learned.seed = options.seed;
    if (layer.activation) learned.num_kept = options.num_kept;
    learned.observes_outputs = layer.float_input < 0 || learned.num_kept > 0;
    if (options.hold_back_every == 0) return;
    held_back = learned;
    held_back->num_kept /= 2;
  }
  uint64_t NumBytes(const LinearLayer& layer) const {
    return MomentBytes(layer, learned) + (held_back ? MomentBytes(layer, *held_back) : 0);
  }
};

// Returns the index of the first layer whose moments are those of layers[i] too: i itself, unless
// both need the moments of one input and nothing else.
size_t FirstWithMomentsOf(std::span<const LinearLayer> layers, size_t i,
                          const GatherOptions& options) {
  const auto shares = [&](const LinearLayer& layer) { return !ObservesOutputs(layer, options); };
  if (!shares(layers[i])) return i;
  const auto found = std::ranges::find_if(layers.first(i), [&](const LinearLayer& layer) {
    return layer.float_input == layers[i].float_input && shares(layer);
  });
  return static_cast<size_t>(found - layers.begin());
}

// The memory that the moments of some layers and learning from them take. Layers learn one after
// another, and each releases its moments.
class PassMemory {
 public:
  explicit PassMemory(const GatherOptions& options) : options_(options) {}

  // Returns the most bytes that are used at a time if one more layer is added. `is_new`: its
  // moments are not those of a layer before it.
  uint64_t MostWith(const LinearLayer& layer, uint64_t moments, bool is_new) const {
    return std::max(moments_ + (is_new ? moments : 0), LearningWith(layer, moments, is_new));
  }
  void Add(const LinearLayer& layer, uint64_t moments, bool is_new) {
    learning_ = LearningWith(layer, moments, is_new);
    if (is_new) moments_ += moments;
  }

 private:
  uint64_t LearningWith(const LinearLayer& layer, uint64_t moments, bool is_new) const {
    const uint64_t tuner = options_.is_for_tuner ? TunerBytes(layer) : 0;
    return is_new ? moments + std::max(learning_, tuner) : std::max(learning_, moments + tuner);
  }

  const GatherOptions& options_;
  uint64_t moments_ = 0;   // bytes of all layers' moments, before the first one learns
  uint64_t learning_ = 0;  // most bytes used while one layer learns and later ones wait
};

// Adds the inputs and outputs of layers to their moments, as soon as both are known. Ids below the
// number of inputs are inputs, the others are outputs.
class PairSink : public runtime::ObserverSink {
 public:
  PairSink(size_t num_inputs, size_t num_outputs, const GatherOptions& options)
      : options_(options),
        num_inputs_(num_inputs),
        activations_(num_inputs + num_outputs),
        pairs_of_(num_inputs + num_outputs) {}

  // Adds a layer. `values` has the input and the output of each of its readings. Outputs that are
  // not observed are nothing.
  void AddLayer(std::span<const ReadingValues> values, const LinearLayer& layer,
                const LayerOptions& options) {
    for (const auto& [input, output] : values) {
      pairs_of_[input].push_back(pairs_.size());
      if (output) pairs_of_[num_inputs_ + *output].push_back(pairs_.size());
      pairs_.push_back(
          {input, output ? std::optional(num_inputs_ + *output) : std::nullopt, layers_.size()});
    }
    layers_.push_back({MomentAccumulator(layer, options.learned), std::nullopt});
    if (options.held_back) layers_.back().held_back.emplace(layer, *options.held_back);
  }

  // So many runs follow; 0: not known.
  void BeginRuns(size_t num_runs) { split_ = SplitOf(num_runs, options_.hold_back_every); }

  void BeginRun() {
    ++run_;
    for (Pair& pair : pairs_) pair.is_added = false;
    for (Activation& activation : activations_) activation = {};
  }

  void Observe(const runtime::ObservedTensor& tensor,
               const runtime::ParallelTasks& run_parallel) override {
    const auto id = static_cast<size_t>(tensor.id);
    Activation& activation = activations_[id];
    activation.dims.assign(tensor.dims.begin(), tensor.dims.end());
    const auto count = static_cast<size_t>(NumElements(tensor.dims));
    activation.values.resize(count);
    if (tensor.type == DataType::kFloat16) {
      kernels::HalfToFloat({static_cast<const uint16_t*>(tensor.data), count},
                           activation.values.data());
    } else {
      std::copy_n(static_cast<const float*>(tensor.data), count, activation.values.data());
    }
    activation.is_there = true;
    for (const size_t index : pairs_of_[id]) AddIfComplete(pairs_[index], run_parallel);
    for (const size_t index : pairs_of_[id]) {
      Release(pairs_[index].input);
      if (pairs_[index].output) Release(*pairs_[index].output);
    }
  }

  // Returns the moments of a layer; `layer` counts the calls of AddLayer.
  LayerMoments Finish(size_t layer) {
    const runtime::ParallelTasks run = [](size_t num_tasks,
                                          const std::function<void(size_t)>& task) {
      for (size_t i = 0; i < num_tasks; ++i) task(i);
    };
    LayerMoments moments;
    moments.learned = layers_[layer].learned.Finish(run);
    if (layers_[layer].held_back) moments.held_back = layers_[layer].held_back->Finish(run);
    moments.split = split_;
    return moments;
  }

 private:
  struct Observed {
    MomentAccumulator learned;
    std::optional<MomentAccumulator> held_back;
  };
  struct Pair {
    size_t input;
    std::optional<size_t> output;  // nothing: the moments have no outputs
    size_t layer;
    bool is_added = false;  // the moments contain this sample's pair
  };

  void AddIfComplete(Pair& pair, const runtime::ParallelTasks& run_parallel) {
    const Activation& input = activations_[pair.input];
    const Activation* const output = pair.output ? &activations_[*pair.output] : nullptr;
    if (pair.is_added || !input.is_there || (output != nullptr && !output->is_there)) return;
    Observed& layer = layers_[pair.layer];
    const auto add = [&](MomentAccumulator& moments, PositionPart part) {
      moments.Add(
          input.dims, input.values.data(),
          output != nullptr ? std::span<const int64_t>(output->dims) : std::span<const int64_t>(),
          output != nullptr ? output->values.data() : nullptr, run_parallel, part);
    };
    if (split_ == Split::kPositions) {
      add(layer.learned, PositionPart::kFirstHalf);
      add(*layer.held_back, PositionPart::kSecondHalf);
    } else {
      const bool is_held_back = IsHeldBack(run_, split_, options_.hold_back_every);
      add(is_held_back ? *layer.held_back : layer.learned, PositionPart::kAll);
    }
    pair.is_added = true;
  }

  // Releases an activation once all its pairs are added.
  void Release(size_t id) {
    const bool is_done =
        std::ranges::all_of(pairs_of_[id], [&](size_t index) { return pairs_[index].is_added; });
    if (is_done) activations_[id].values = {};
  }

  const GatherOptions& options_;
  size_t num_inputs_;
  Split split_ = Split::kNone;
  size_t run_ = 0;  // number of the present run, from 1 on
  std::vector<Activation> activations_;
  std::vector<std::vector<size_t>> pairs_of_;  // indices into pairs_, for each activation
  std::vector<Pair> pairs_;
  std::vector<Observed> layers_;
};

// Returns the options of each layer. A layer is spilled if its moments do not fit the limit beside
// those of the layers before it and the memory for learning.
std::vector<LayerOptions> OptionsOf(std::span<const LinearLayer> layers,
                                    const GatherOptions& options) {
  std::vector<LayerOptions> of_layers;
  PassMemory memory(options);
  for (size_t i = 0; i < layers.size(); ++i) {
    const LinearLayer& layer = layers[i];
    const bool is_new = FirstWithMomentsOf(layers, i, options) == i;
    LayerOptions& of_layer = of_layers.emplace_back(layer, options);
    uint64_t num_bytes = of_layer.NumBytes(layer);
    if (options.is_spilled && memory.MostWith(layer, num_bytes, is_new) > options.memory_limit) {
      of_layer.learned.is_spilled = true;
      if (of_layer.held_back) of_layer.held_back->is_spilled = true;
      num_bytes = 0;
    }
    memory.Add(layer, num_bytes, is_new);
  }
  return of_layers;
}

// Returns the index of `value` in `values`, after adding it at the end if it was missing.
size_t IndexOf(const std::string& value, std::vector<std::string>& values) {
  const auto found = std::ranges::find(values, value);
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  values.push_back(value);
  return values.size() - 1;
}

}  // namespace

bool ObservesOutputs(const LinearLayer& layer, const GatherOptions& options) {
  return LayerOptions(layer, options).learned.observes_outputs;
}

Split SplitOf(size_t num_runs, size_t hold_back_every) {
  constexpr size_t kLeastJudges = 4;
  if (hold_back_every == 0) return Split::kNone;
  if (num_runs == 1) return Split::kPositions;
  const bool are_enough = hold_back_every > 1 && num_runs / hold_back_every >= kLeastJudges;
  return are_enough ? Split::kHeldBack : Split::kHalves;
}

bool IsHeldBack(size_t run, Split split, size_t hold_back_every) {
  BITPRESS_DCHECK(split != Split::kPositions);
  if (split == Split::kHalves) return run % 2 == 0;
  return split == Split::kHeldBack && run % hold_back_every == 0;
}

std::vector<std::span<const LinearLayer>> GroupLayers(std::span<const LinearLayer> layers,
                                                      const GatherOptions& options) {
  if (options.is_spilled && !layers.empty()) return {layers};
  std::vector<std::span<const LinearLayer>> groups;
  size_t begin = 0;
  std::optional<PassMemory> memory(options);
  for (size_t i = 0; i < layers.size(); ++i) {
    const uint64_t num_bytes = LayerOptions(layers[i], options).NumBytes(layers[i]);
    const auto is_new = [&] {
      return FirstWithMomentsOf(layers.subspan(begin), i - begin, options) == i - begin;
    };
    if (i > begin && memory->MostWith(layers[i], num_bytes, is_new()) > options.memory_limit) {
      groups.push_back(layers.subspan(begin, i - begin));
      begin = i;
      memory.emplace(options);
    }
    memory->Add(layers[i], num_bytes, is_new());
  }
  if (begin < layers.size()) groups.push_back(layers.subspan(begin));
  return groups;
}

std::vector<std::shared_ptr<LayerMoments>> GatherMoments(ObservedNetwork& network,
                                                         std::span<const LinearLayer> layers,
                                                         const GatherOptions& options) {
  const std::vector<LayerOptions> of_layers = OptionsOf(layers, options);
  std::vector<size_t> first_of;  // index of the layer that has the moments of each layer
  for (size_t i = 0; i < layers.size(); ++i) {
    first_of.push_back(FirstWithMomentsOf(layers, i, options));
  }
  std::vector<std::string> outputs;
  std::vector<std::string> inputs;
  // The indices of the input and the output of each reading, for each layer.
  std::vector<std::vector<ReadingValues>> values_of_layer;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& values = values_of_layer.emplace_back();
    if (first_of[i] != i) continue;
    for (const Reading& reading : layers[i].readings) {
      values.emplace_back(IndexOf(network.InputOf(layers[i], reading), inputs), std::nullopt);
      if (ObservesOutputs(layers[i], options)) {
        values.back().second = IndexOf(reading.output, outputs);
      }
    }
  }
  PairSink sink(inputs.size(), outputs.size(), options);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (first_of[i] != i) continue;
    try {
      sink.AddLayer(values_of_layer[i], layers[i], of_layers[i]);
    } catch (const Error& error) {  // of a temporary file: no other error is possible here
      Fail(error.code(),
           "{}; without finetune_spill the samples are run several times instead, and a larger "
           "finetune_memory (megabytes) needs less room there",
           error.what());
    }
  }
  // A value that is input and output of layers is observed twice.
  std::vector<std::string> values = inputs;
  values.insert(values.end(), outputs.begin(), outputs.end());
  network.Run(
      values, sink, options, [&](size_t num_runs) { sink.BeginRuns(num_runs); },
      [&] { sink.BeginRun(); });
  std::vector<std::shared_ptr<LayerMoments>> moments;
  size_t num_finished = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (first_of[i] != i) {
      moments.push_back(moments[first_of[i]]);
    } else {
      moments.push_back(std::make_shared<LayerMoments>(sink.Finish(num_finished++)));
    }
  }
  return moments;
}

}  // namespace bitpress::finetune
