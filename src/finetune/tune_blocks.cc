#include "finetune/tune_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "finetune/block_values.h"
#include "finetune/finetune.h"
#include "finetune/journal.h"
#include "finetune/learn_block.h"
#include "finetune/network_outputs.h"
#include "finetune/network_parts.h"
#include "gradients/find_blocks.h"
#include "gradients/separate_sums.h"
#include "ops/kv_caches.h"
#include "ops/operator_traits.h"
#include "weights/pair_rules.h"

namespace bitpress::finetune {
namespace {

using gradients::Segment;
using graph::Model;

// How far a weight that an earlier pass rounded may be from there, in steps: as it was before it
// was rounded, but not so far that it rounds to another value.
constexpr double kMostFromRounded = 0.4;
// A layer with few positions for each of its inputs learns them by heart. Its moves decay (AdamW;
// Loshchilov and Hutter, 2019), so that a weight changes only where the gradients of many batches
// agree: by this share of the rate where it has as many inputs as a fifth of its positions.
constexpr double kMostDecay = 2, kPositionsOfInput = 5;
// Such a layer also forgets, while it is not rounded wholly, what an earlier pass found in closed
// form from all positions. Where layers decay so much, or training runs are so few that each comes
// many times, a block begins from those roundings, too.
constexpr double kLeastDecayOfRoundings = 0.5;
constexpr size_t kFewRuns = 64;
// A product with more outputs, that of a vocabulary, does not learn alone: its loss is the
// quadratic form that the other passes have, and its gradients take as long as those of half a
// decoder.
constexpr int64_t kMostOutputsAlone = 16384;
// The steps of blocks of decoders as a share of those of others, and the positions of a step.
constexpr double kStepsOfDecoders = 0.4;
constexpr int64_t kPositionsOfStep = 1024;
// Fewer runs than four times the share that is held back leave one in so many for validation.
constexpr size_t kLeastHeldBackRuns = 4;

// The name of a layer's record in the journal, beside that of an earlier pass.
std::string RecordOf(const std::string& weight) { return weight + " (blocks)"; }

Model WithSeparateSums(Model model) {
  gradients::SeparateSums(model);
  return model;
}

class BlockTuner {
 public:
  BlockTuner(Model& model, const Model& float_model, plan::ResolvedPlan& resolved,
             data::Source& source, const FinetuneOptions& options, const std::string& key,
             ThreadPool& pool)
      : model_(model),
        float_model_(WithSeparateSums(float_model.Clone())),
        resolved_(resolved),
        source_(source),
        options_(options),
        key_(key),
        pool_(pool),
        index_(float_model_),
        has_caches_(!ops::FindKvCaches(float_model_).empty()),
        first_model_(model.Clone()),
        first_scales_(resolved.weight_scales),
        pair_rules_(resolved.plan, float_model_, resolved.channels) {}

  TunedBlocks Run() {
    FindLearningLayers();
    const std::vector<Segment> segments = gradients::FindBlocks(
        float_model_, [&](const graph::Node& node) { return layers_of_.contains(Key(node)); });
    if (std::ranges::none_of(segments, &Segment::is_block)) {
      SayWhatStays(segments);
      return std::move(result_);
    }
    LearningJournal journal(options_.journal, key_);
    BlockValues values(float_model_, segments, source_, options_.gather);
    result_.num_samples = source_.num_samples();
    DivideRuns(values.num_runs());
    if (training_.empty() || validation_.empty()) {
      for (const LinearLayer& layer : layers_) {
        result_.left_out.emplace_back(
            layer.weight,
            "blocks learn from two samples or more, of which one validates (finetune_hold_back=0 "
            "lets them validate themselves)");
      }
      return std::move(result_);
    }
    for (size_t i = 0; i < segments.size(); ++i) {
      Report(segments, i, 0, 1, "");
      const bool learns = Learns(segments[i]);
      if (!learns && i + 1 == segments.size()) break;  // nothing reads what it gives
      values.RunFloat(segments[i]);
      if (learns) {
        Learn(segments, i, values, journal);
      } else {
        values.RunQuantized(segments[i],
                            WithSeparateSums(Simulated(model_.Clone(), resolved_, pool_)));
      }
      values.Forget(i);
    }
    SayWhatStays(segments);
    ValidateTogether();
    return std::move(result_);
  }

 private:
  std::string Key(const graph::Node& node) const { return index_.KeyOf(node); }
  // Progress counts steps, of which all segments have the same number here, so that its rate tells
  // the time that is left.
  void Report(std::span<const Segment> segments, size_t segment, size_t step, size_t num_steps,
              const std::string& loss) const {
    if (!options_.gather.progress) return;
    options_.gather.progress(
        fmt::format("learn blocks: {} of {}{}", segment + 1, segments.size(), loss),
        segment * options_.num_steps + step * options_.num_steps / num_steps,
        segments.size() * options_.num_steps);
  }

  void FindLearningLayers() {
    FinetuneOptions find = options_;
    find.adds_biases = false;
    Layers layers = TunableLayers(float_model_, resolved_, find);
    result_.left_out = std::move(layers.left_out);
    layers_ = std::move(layers.found);
    std::erase_if(layers_, [&](const LinearLayer& layer) {
      const bool is_recurrent = layer.recurrent != RecurrentWeight::kNone;
      if (is_recurrent) {
        result_.left_out.emplace_back(layer.weight, layer.op_type + " has no gradient");
      }
      return is_recurrent;
    });
    for (const LinearLayer& layer : layers_) {
      for (const Reading& reading : layer.readings) layers_of_[reading.node] = &layer;
    }
    for (const plan::TensorPlan& row : resolved_.plan.tensors) {
      if (row.role == plan::Role::kWeight && row.is_quantized()) weight_rows_[row.value] = &row;
    }
  }

  // Returns why a segment with layers does not learn; "" if it does.
  std::string WhyNot(const Segment& segment) const {
    if (!segment.reason.empty()) return "in its block, " + segment.reason;
    for (const std::string& value : segment.inputs) {
      const DataType type = float_model_.InfoOf(value).type;
      if (type != DataType::kFloat && type != DataType::kInt32 && type != DataType::kInt64) {
        return "its block reads values that are no FLOAT and no whole numbers";
      }
    }
    if (segment.num_layers != 1) return "";
    for (const graph::Node& node : segment.part.nodes) {
      const auto layer = layers_of_.find(Key(node));
      if (layer != layers_of_.end() && layer->second->num_outputs() > kMostOutputsAlone) {
        return "it is alone in its block and has very many outputs, where gptq and adaquant "
               "find as much in less time";
      }
    }
    return "";
  }
  bool Learns(const Segment& segment) const {
    return segment.num_layers > 0 && WhyNot(segment).empty();
  }

  // One run in some is for validation. If none is held back, the training runs validate themselves.
  void DivideRuns(size_t num_runs) {
    size_t every = options_.gather.hold_back_every;
    if (every > 0) every = std::min(every, std::max<size_t>(2, num_runs / kLeastHeldBackRuns));
    for (size_t run = 0; run < num_runs; ++run) {
      const bool is_held_back = every > 0 && run % every == every - 1;
      (is_held_back ? validation_ : training_).push_back(run);
    }
    result_.num_validation_runs = validation_.size();
    if (every == 0) validation_ = training_;
  }

  // Says why quantized weights did not learn that are in no block, or in none alone.
  void SayWhatStays(std::span<const Segment> segments) {
    std::set<std::string> said;
    for (const Segment& segment : segments) {
      if (segment.num_layers == 0) continue;
      const std::string why = WhyNot(segment);
      if (why.empty()) continue;
      for (const graph::Node& node : segment.part.nodes) {
        const auto layer = layers_of_.find(Key(node));
        if (layer == layers_of_.end() || !said.insert(layer->second->weight).second) continue;
        result_.left_out.emplace_back(layer->second->weight, why);
      }
    }
    for (const TunedBlockReport& block : result_.blocks) {
      said.insert(block.weights.begin(), block.weights.end());
    }
    for (const LinearLayer& layer : layers_) {
      if (!said.insert(layer.weight).second) continue;
      result_.left_out.emplace_back(layer.weight, "it is read in several blocks, or in a body");
    }
  }

  // The parts of a block that learn.
  struct Parts {
    std::vector<const LinearLayer*> layers;
    std::vector<BlockVector> vectors;  // biases and factors of norms
    std::vector<BlockWeight> weights;  // all that are quantized
    std::vector<gradients::QuantizedValue> quantized;

    bool HasVector(const std::string& name) const {
      return std::ranges::count(vectors, name, &BlockVector::name) > 0;
    }
  };

  Parts PartsOf(const Segment& segment) {
    Parts parts;
    std::set<std::string> keys;
    for (const graph::Node& node : segment.part.nodes) keys.insert(Key(node));
    const auto is_inside = [&](const LinearLayer& layer) {
      return std::ranges::all_of(
          layer.readings, [&](const Reading& reading) { return keys.contains(reading.node); });
    };
    std::set<std::string> read;
    for (const graph::Node& node : segment.part.nodes) {
      for (size_t i = 0; i < node.num_inputs(); ++i) read.insert(node.input(i));
    }
    for (const LinearLayer& layer : layers_) {
      if (!is_inside(layer)) continue;
      parts.layers.push_back(&layer);
      // All readers of a bias must be in the block, as FindLayers has seen to for its own node.
      if (!layer.bias.empty() && float_model_.IsInitializer(layer.bias) &&
          read.contains(layer.bias) && !parts.HasVector(layer.bias)) {
        parts.vectors.push_back({layer.bias});
      }
    }
    AddFactors(segment, keys, parts);
    for (const auto& [name, row] : weight_rows_) {
      if (!read.contains(name)) continue;
      const auto layer = std::ranges::find(parts.layers, name, &LinearLayer::weight);
      parts.weights.push_back(WeightOf(*row, layer == parts.layers.end() ? nullptr : *layer));
    }
    AddQuantizers(segment, parts);
    return parts;
  }

  // Adds the factors of norms that nothing outside of the block reads.
  void AddFactors(const Segment& segment, const std::set<std::string>& keys, Parts& parts) const {
    for (const graph::Node& node : segment.part.nodes) {
      const int scale = ops::TraitsOf(node).norm.scale;
      if (scale < 0) continue;
      const std::string& factors = node.input(static_cast<size_t>(scale));
      if (!float_model_.IsInitializer(factors) || weight_rows_.contains(factors) ||
          float_model_.InfoOf(factors).type != DataType::kFloat || parts.HasVector(factors)) {
        continue;
      }
      const std::vector<graph::Use> uses = float_model_.Uses(factors);
      // No body reads them, no other block, and they are no output.
      const bool is_inside =
          uses.size() == float_model_.AllUses(factors).size() && !float_model_.IsOutput(factors) &&
          std::ranges::all_of(uses,
                              [&](const graph::Use& use) { return keys.contains(Key(use.node)); });
      if (is_inside) parts.vectors.push_back({factors, /*is_factor=*/true});
    }
  }

  BlockWeight WeightOf(const plan::TensorPlan& row, const LinearLayer* layer) {
    const std::vector<float> now = FloatsOf(model_, row.value);
    std::vector<float> wanted = FloatsOf(float_model_, row.value);
    const graph::InitializerView view = float_model_.Initializer(row.value);
    BlockWeight weight{
        row.value,
        {},
        WeightGrid(row, resolved_.plan.operators, {view.dims.begin(), view.dims.end()},
                   row.uses.empty() ? row.value : row.uses.front().node, pair_rules_.For(row)),
        layer != nullptr};
    weight.grid.KeepSignOf(wanted);
    weight.grid.FitScales(now, pool_);
    const auto scales = resolved_.weight_scales.find(plan::ScaleKeyOf(row));
    if (scales != resolved_.weight_scales.end() &&
        scales->second.size() == weight.grid.params().size()) {
      weight.grid.set_params(scales->second);
    }
    if (now != wanted) {
      for (size_t i = 0; i < wanted.size(); ++i) {
        weight.has_roundings =
            weight.has_roundings || weight.grid.Round(i, double{wanted[i]}) != now[i];
        const double step = kMostFromRounded * weight.grid.StepAt(i, double{now[i]});
        wanted[i] = static_cast<float>(
            std::clamp(double{wanted[i]}, double{now[i]} - step, double{now[i]} + step));
      }
    }
    weight.wanted = std::move(wanted);
    return weight;
  }

  // The positions of a block are those of its last layer.
  void SetDecay(Parts& parts, size_t num_values) const {
    const auto outputs = static_cast<double>(parts.layers.back()->num_outputs());
    const double positions =
        static_cast<double>(num_values) / outputs * static_cast<double>(training_.size());
    for (BlockWeight& weight : parts.weights) {
      const auto layer = std::ranges::find(parts.layers, weight.name, &LinearLayer::weight);
      if (layer == parts.layers.end()) continue;
      const auto inputs = static_cast<double>((*layer)->columns);
      weight.decay = kMostDecay * std::min(1.0, kPositionsOfInput * inputs / positions);
    }
  }

  // The quantizers of the plan whose readers are in the block.
  void AddQuantizers(const Segment& segment, Parts& parts) const {
    std::map<std::string, std::string> output_of;  // by the keys of the block's nodes
    for (const graph::Node& node : segment.part.nodes) output_of[Key(node)] = node.output(0);
    for (const plan::TensorPlan& row : resolved_.plan.tensors) {
      if (row.role != plan::Role::kActivation || !row.is_quantized() || row.is_dynamic()) continue;
      gradients::QuantizedValue value{row.value, nullptr, {}};
      for (const plan::TensorUse& use : row.uses) {
        const auto output = output_of.find(use.node);
        if (output == output_of.end()) continue;
        value.readings.emplace_back(output->second, static_cast<size_t>(use.input));
      }
      if (value.readings.empty()) continue;
      const formats::FormatSpec spec = row.Spec();
      if (row.integer) {
        const auto params = resolved_.scales.find(plan::ScaleKeyOf(row));
        if (params == resolved_.scales.end()) continue;  // it stays float
        value.quantizer = gradients::MakeIntegerQuantizer(spec.element_type, params->second);
      } else {
        if (row.scaled && !row.scaled->scale) continue;
        value.quantizer = gradients::MakeFloatQuantizer(
            spec, row.axis.value_or(-1), row.scaled ? row.scaled->scale : std::nullopt);
      }
      parts.quantized.push_back(std::move(value));
    }
  }

  void Learn(std::span<const Segment> segments, size_t i, BlockValues& values,
             LearningJournal& journal) {
    const Segment& segment = segments[i];
    Parts parts = PartsOf(segment);
    std::vector<std::string> learned;
    for (const BlockVector& vector : parts.vectors) learned.push_back(vector.name);
    for (const BlockWeight& weight : parts.weights) {
      if (weight.learns) learned.push_back(weight.name);
    }
    gradients::Block<float> block(float_model_, segment.part, learned, parts.quantized, pool_);
    for (const BlockVector& vector : parts.vectors) {
      block.Constant(vector.name).values = FloatsOf(model_, vector.name);
    }
    TunedBlockReport report;
    report.output = segment.part.outputs.front();
    for (const LinearLayer* layer : parts.layers) report.weights.push_back(layer->weight);
    if (parts.layers.empty()) {
      report.note = "its layers have readers in other blocks";
      for (BlockWeight& weight : parts.weights) RoundInto(block, weight);
    } else if (std::optional<LearnedBlock> known = FindIn(journal, parts, report)) {
      Take(parts, std::move(*known), block);
      ++result_.num_resumed;
    } else {
      SetDecay(parts, values.Float(segment.part.outputs.front(), training_.front()).size());
      const BlockSamples samples{[&](size_t run) { return SampleOf(segment, block, values, run); },
                                 training_, validation_};
      LearnBlockOptions options = OptionsOf(segment, parts, samples);
      options.progress = [&](size_t step, double loss) {
        Report(segments, i, step, NumStepsOf(options), fmt::format(", loss {:.3g}", loss));
      };
      LearnedBlock found = LearnBlock(block, parts.weights, parts.vectors, samples, options, pool_);
      AddTo(journal, parts, found, report);
      Take(parts, std::move(found), block);
    }
    result_.blocks.push_back(std::move(report));
    if (i + 1 == segments.size()) return;
    for (size_t run = 0; run < values.num_runs(); ++run) {
      for (size_t k = 0; k < block.inputs().size(); ++k) {
        block.Input(k) = values.Quantized(block.inputs()[k], run);
      }
      block.Forward();
      for (size_t k = 0; k < segment.part.outputs.size(); ++k) {
        values.PutQuantized(segment.part.outputs[k], run, block.Output(k));
      }
    }
  }

  // Returns whether the network is a decoder and a norm reads what the block gives.
  bool IsOfDecoder(const Segment& segment) const {
    const std::vector<graph::Use> uses = float_model_.Uses(segment.part.outputs.front());
    return has_caches_ && std::ranges::any_of(uses, [](const graph::Use& use) {
             return gradients::IsNorm(use.node);
           });
  }

  LearnBlockOptions OptionsOf(const Segment& segment, const Parts& parts,
                              const BlockSamples& samples) const {
    LearnBlockOptions options{.num_steps = options_.num_steps, .seed = options_.gather.seed};
    if (!IsOfDecoder(segment)) {
      const bool has_few_runs = training_.size() < kFewRuns;
      const bool tries_roundings =
          std::ranges::any_of(parts.weights, [&](const BlockWeight& weight) {
            return weight.has_roundings && (has_few_runs || weight.decay >= kLeastDecayOfRoundings);
          });
      if (tries_roundings) options.start = BlockStart::kBoth;
      return options;
    }
    options.num_steps = std::max<size_t>(
        1, static_cast<size_t>(kStepsOfDecoders * static_cast<double>(options_.num_steps)));
    options.evens_positions = true;
    // The errors of all blocks before are most of the error of a sum, and stay.
    options.most_error = 1;
    if (std::ranges::any_of(parts.weights, &BlockWeight::has_roundings)) {
      options.start = BlockStart::kRoundings;
    }
    const gradients::Array<float> output = samples.read(training_.front()).outputs.front();
    const int64_t length = output.dims.empty() ? 1 : output.dims.back();
    const auto positions = static_cast<int64_t>(output.size()) / std::max<int64_t>(length, 1);
    options.batch_size =
        static_cast<size_t>(std::clamp<int64_t>(kPositionsOfStep / std::max<int64_t>(positions, 1),
                                                1, static_cast<int64_t>(options.batch_size)));
    return options;
  }

  static BlockSample SampleOf(const Segment& segment, const gradients::Block<float>& block,
                              const BlockValues& values, size_t run) {
    BlockSample sample;
    for (const std::string& value : block.inputs()) {
      sample.inputs.push_back(values.Quantized(value, run));
    }
    for (const std::string& value : segment.part.outputs) {
      sample.outputs.push_back(values.Float(value, run));
    }
    return sample;
  }

  void RoundInto(gradients::Block<float>& block, const BlockWeight& weight) {
    std::vector<float>& values = block.Constant(weight.name).values;
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = weight.grid.Round(k, double{weight.wanted[k]});
    }
  }

  // Writes what a block learned into the model, the plan and the block.
  void Take(Parts& parts, LearnedBlock learned, gradients::Block<float>& block) {
    for (BlockWeight& weight : parts.weights) RoundInto(block, weight);
    if (!learned.is_better) return;
    for (auto& [name, weight] : learned.weights) {
      SetFloats(model_, name, weight.values);
      if (!weight.params.empty()) {
        resolved_.weight_scales[plan::ScaleKeyOf(*weight_rows_.at(name))] = weight.params;
      }
      block.Constant(name).values = std::move(weight.values);
    }
    for (auto& [name, values] : learned.vectors) {
      SetFloats(model_, name, values);
      block.Constant(name).values = std::move(values);
    }
    has_learned_ = true;
  }

  static void FillReport(const LearnedBlock& learned, TunedBlockReport& report) {
    report.is_tuned = learned.is_better;
    report.training_before = learned.before.training;
    report.training_after = learned.after.training;
    report.validation_before = learned.before.validation;
    report.validation_after = learned.after.validation;
    report.best_step = learned.best_step;
    if (!learned.is_better) {
      report.note = "it stays as rounded, because it did not come closer on the validation samples";
    }
  }

  // The journal has a record of each layer and of each norm whose factors learn. Biases are with
  // the layer that they belong to.
  void AddTo(LearningJournal& journal, const Parts& parts, const LearnedBlock& learned,
             TunedBlockReport& report) const {
    FillReport(learned, report);
    LearnedLayer common;
    common.report.error_before = learned.before.validation;
    common.report.error_after = learned.after.validation;
    common.report.is_tuned = learned.is_better;
    common.report.taken_from = "blocks";
    for (const LinearLayer* layer : parts.layers) {
      LearnedLayer record = common;
      record.report.node = layer->node();
      record.report.op_type = layer->op_type;
      record.report.weight = RecordOf(layer->weight);
      record.report.format = layer->row->format;
      if (learned.is_better) {
        const QuantizedWeight& weight = learned.weights.at(layer->weight);
        record.learned.weights = weight.values;
        record.learned.params = weight.params;
        const auto bias = learned.vectors.find(layer->bias);
        if (bias != learned.vectors.end()) record.learned.bias = bias->second;
      }
      journal.Add(record);
    }
    for (const BlockVector& vector : parts.vectors) {
      if (!vector.is_factor) continue;
      LearnedLayer record = common;
      record.report.weight = RecordOf(vector.name);
      if (learned.is_better) record.learned.bias = learned.vectors.at(vector.name);
      journal.Add(record);
    }
  }

  // Returns what the journal has of a block; nothing unless it has all layers.
  std::optional<LearnedBlock> FindIn(const LearningJournal& journal, const Parts& parts,
                                     TunedBlockReport& report) const {
    LearnedBlock found;
    for (const LinearLayer* layer : parts.layers) {
      std::optional<LearnedLayer> record = journal.Find(RecordOf(layer->weight));
      if (!record) return std::nullopt;
      found.before.validation = record->report.error_before;
      found.after.validation = record->report.error_after;
      found.is_better = record->report.is_tuned;
      if (!found.is_better) continue;
      if (!record->learned.bias.empty()) {
        found.vectors.emplace(layer->bias, std::move(record->learned.bias));
      }
      found.weights.emplace(layer->weight, QuantizedWeight{std::move(record->learned.weights),
                                                           std::move(record->learned.params)});
    }
    for (const BlockVector& vector : parts.vectors) {
      if (!vector.is_factor) continue;
      std::optional<LearnedLayer> record = journal.Find(RecordOf(vector.name));
      if (!record || record->report.is_tuned != found.is_better) return std::nullopt;
      if (!found.is_better) continue;
      const int64_t size = NumElements(float_model_.Initializer(vector.name).dims);
      if (std::ssize(record->learned.bias) != size) return std::nullopt;
      found.vectors.emplace(vector.name, std::move(record->learned.bias));
    }
    FillReport(found, report);
    return found;
  }

  // Undoes everything unless the network's outputs come closer to those of the float model.
  void ValidateTogether() {
    if (!has_learned_ || result_.num_validation_runs == 0) return;
    GatherOptions options = options_.gather;
    options.stage = "validate the network";
    const std::set<size_t> held_back(validation_.begin(), validation_.end());
    const auto validates = [&](size_t run) { return held_back.contains(run - 1); };
    // Blocks learn what attention makes of keys and values, not these, and the later positions of a
    // sample have read them.
    NetworkOutputs wanted(float_model_, source_, options, /*with_caches=*/false);
    plan::ResolvedPlan first = resolved_;
    first.weight_scales = first_scales_;
    const std::vector<OutputErrors> before =
        wanted.ErrorsOf(Simulated(first_model_.Clone(), std::move(first), pool_), validates);
    const std::vector<OutputErrors> after =
        wanted.ErrorsOf(Simulated(model_.Clone(), resolved_, pool_), validates);
    result_.network = ValidateNetwork(before, after, 0);
    if (!result_.network->is_refused()) return;
    model_ = first_model_.Clone();
    resolved_.weight_scales = first_scales_;
    for (TunedBlockReport& block : result_.blocks) {
      if (!block.is_tuned) continue;
      block.is_tuned = false;
      block.note = "it stays as it was, because the network's outputs did not come closer";
    }
  }

  Model& model_;
  const Model float_model_;
  plan::ResolvedPlan& resolved_;
  data::Source& source_;
  const FinetuneOptions& options_;
  const std::string& key_;
  ThreadPool& pool_;
  plan::NodeIndex index_;
  const bool has_caches_;
  const Model first_model_;
  const plan::WeightScaleTable first_scales_;
  weights::PairRules pair_rules_;
  std::vector<LinearLayer> layers_;
  std::map<std::string, const LinearLayer*> layers_of_;         // by the nodes that read the weight
  std::map<std::string, const plan::TensorPlan*> weight_rows_;  // by weight
  std::vector<size_t> training_, validation_;                   // runs
  bool has_learned_ = false;
  TunedBlocks result_;
};

}  // namespace

TunedBlocks TuneBlocks(Model& model, const Model& float_model, plan::ResolvedPlan& resolved,
                       data::Source& source, const FinetuneOptions& options, const std::string& key,
                       ThreadPool& pool) {
  return BlockTuner(model, float_model, resolved, source, options, key, pool).Run();
}

}  // namespace bitpress::finetune
