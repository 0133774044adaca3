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

// The bytes of a layer's sums, and of the moments that they become.
struct LayerBytes {
  uint64_t sums = 0;
  uint64_t moments = 0;

  LayerBytes(const LinearLayer& layer, const GatherOptions& options) {
    const uint64_t parts = options.hold_back_every == 0 ? 1 : 2;
    sums = parts * AccumulatorBytes(layer);
    moments = parts * MomentBytes(ShapeOf(layer));
  }
};

// The memory that the sums of some layers and learning from them take. Layers learn one after
// another: the sums of one become moments, and are released.
class PassMemory {
 public:
  explicit PassMemory(const GatherOptions& options) : options_(options) {}

  // Returns the most bytes that are used at a time if one more layer is added. `is_new`: its
  // moments are not those of a layer before it.
  uint64_t MostWith(const LinearLayer& layer, const LayerBytes& bytes, bool is_new) const {
    return std::max(sums_ + (is_new ? bytes.sums : 0), LearningWith(layer, bytes, is_new));
  }
  void Add(const LinearLayer& layer, const LayerBytes& bytes, bool is_new) {
    learning_ = LearningWith(layer, bytes, is_new);
    if (is_new) sums_ += bytes.sums;
  }

 private:
  uint64_t LearningWith(const LinearLayer& layer, const LayerBytes& bytes, bool is_new) const {
    const uint64_t tuner = options_.is_for_tuner ? TunerBytes(layer) : 0;
    if (!is_new) return std::max(learning_, bytes.moments + tuner);
    return std::max(learning_ + bytes.sums, bytes.moments + std::max(bytes.sums, tuner));
  }

  const GatherOptions& options_;
  uint64_t sums_ = 0;      // bytes of all layers' sums, before the first one learns
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
  void AddLayer(std::span<const ReadingValues> values, const LinearLayer& layer, bool is_spilled) {
    for (const auto& [input, output] : values) {
      pairs_of_[input].push_back(pairs_.size());
      if (output) pairs_of_[num_inputs_ + *output].push_back(pairs_.size());
      pairs_.push_back(
          {input, output ? std::optional(num_inputs_ + *output) : std::nullopt, layers_.size()});
    }
    const MomentOptions moments{
        .num_positions = options_.num_positions, .seed = options_.seed, .is_spilled = is_spilled};
    layers_.push_back({MomentAccumulator(layer, moments), std::nullopt});
    if (options_.hold_back_every > 0) layers_.back().held_back.emplace(layer, moments);
  }

  void BeginRuns(const RunRange& range) {
    range_ = range;
    run_ = range.first;
    split_ = SplitOf(range.all, options_.hold_back_every);
  }

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

  // Returns the sums of a layer; `layer` counts the calls of AddLayer.
  LayerSums Finish(size_t layer) {
    const runtime::ParallelTasks run = [](size_t num_tasks,
                                          const std::function<void(size_t)>& task) {
      for (size_t i = 0; i < num_tasks; ++i) task(i);
    };
    LayerSums sums;
    sums.learned = layers_[layer].learned.Finish(run);
    if (layers_[layer].held_back) sums.held_back = layers_[layer].held_back->Finish(run);
    sums.split = split_;
    sums.runs = {range_.first, run_ - range_.first, range_.all};
    return sums;
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
          output != nullptr ? output->values.data() : nullptr, run_parallel, {run_ - 1, part});
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
  RunRange range_;
  size_t run_ = 0;  // number of the present run among those of all samples, from 1 on
  std::vector<Activation> activations_;
  std::vector<std::vector<size_t>> pairs_of_;  // indices into pairs_, for each activation
  std::vector<Pair> pairs_;
  std::vector<Observed> layers_;
};

// Returns which layers are spilled: those whose sums do not fit the limit beside those of the
// layers before them and the memory for learning.
std::vector<bool> SpilledLayers(std::span<const LinearLayer> layers, const GatherOptions& options) {
  std::vector<bool> are_spilled;
  PassMemory memory(options);
  for (size_t i = 0; i < layers.size(); ++i) {
    const LinearLayer& layer = layers[i];
    const bool is_new = FirstWithMomentsOf(layers, i) == i;
    LayerBytes bytes(layer, options);
    const bool is_spilled =
        options.is_spilled && memory.MostWith(layer, bytes, is_new) > options.memory_limit;
    if (is_spilled) bytes.sums = bytes.moments = 0;
    are_spilled.push_back(is_spilled);
    memory.Add(layer, bytes, is_new);
  }
  return are_spilled;
}

// Returns the index of `value` in `values`, after adding it at the end if it was missing.
size_t IndexOf(const std::string& value, std::vector<std::string>& values) {
  const auto found = std::ranges::find(values, value);
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  values.push_back(value);
  return values.size() - 1;
}

}  // namespace

LayerMoments& LayerSums::Finish() {
  if (!finished) {
    finished.emplace();
    finished->learned = learned.Finish();
    finished->held_back = held_back.Finish();
    finished->split = split;
  }
  return *finished;
}

size_t FirstWithMomentsOf(std::span<const LinearLayer> layers, size_t i) {
  if (layers[i].observes_outputs()) return i;
  const auto found =
      std::ranges::find(layers.first(i), layers[i].float_input, &LinearLayer::float_input);
  return static_cast<size_t>(found - layers.begin());
}

Split SplitOf(size_t num_runs, size_t hold_back_every) {
  constexpr size_t kLeastValidationRuns = 4;
  if (hold_back_every == 0) return Split::kNone;
  if (num_runs == 1) return Split::kPositions;
  const bool are_enough = hold_back_every > 1 && num_runs / hold_back_every >= kLeastValidationRuns;
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
    const LayerBytes bytes(layers[i], options);
    const auto is_new = [&] {
      return FirstWithMomentsOf(layers.subspan(begin), i - begin) == i - begin;
    };
    if (i > begin && memory->MostWith(layers[i], bytes, is_new()) > options.memory_limit) {
      groups.push_back(layers.subspan(begin, i - begin));
      begin = i;
      memory.emplace(options);
    }
    memory->Add(layers[i], bytes, is_new());
  }
  if (begin < layers.size()) groups.push_back(layers.subspan(begin));
  return groups;
}

std::vector<std::shared_ptr<LayerSums>> GatherMoments(ObservedNetwork& network,
                                                      std::span<const LinearLayer> layers,
                                                      const GatherOptions& options) {
  const std::vector<bool> are_spilled = SpilledLayers(layers, options);
  std::vector<size_t> first_of;  // index of the layer that has the moments of each layer
  for (size_t i = 0; i < layers.size(); ++i) {
    first_of.push_back(FirstWithMomentsOf(layers, i));
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
      if (layers[i].observes_outputs()) values.back().second = IndexOf(reading.output, outputs);
    }
  }
  PairSink sink(inputs.size(), outputs.size(), options);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (first_of[i] != i) continue;
    try {
      sink.AddLayer(values_of_layer[i], layers[i], are_spilled[i]);
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
      values, sink, options, [&](const RunRange& range) { sink.BeginRuns(range); },
      [&] { sink.BeginRun(); });
  std::vector<std::shared_ptr<LayerSums>> sums;
  size_t num_finished = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (first_of[i] != i) {
      sums.push_back(sums[first_of[i]]);
    } else {
      sums.push_back(std::make_shared<LayerSums>(sink.Finish(num_finished++)));
    }
  }
  return sums;
}

}  // namespace bitpress::finetune
