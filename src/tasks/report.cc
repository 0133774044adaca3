// The task `report`: collects the data of the page about a quantized model.

#include "tasks/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "calibrate/calibrate.h"
#include "graph/clean_up.h"
#include "graph/stored_bytes.h"
#include "ops/quantizer_nodes.h"
#include "plan/make_plan.h"
#include "report/commands.h"
#include "report/compare_values.h"
#include "report/histogram.h"
#include "report/layers.h"
#include "report/overview.h"
#include "report/picture.h"
#include "report/quantizers.h"
#include "rewrite/prepare.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "tasks/json_file.h"
#include "tasks/plan.h"
#include "tasks/search.h"
#include "weights/packed_nodes.h"

namespace bitpress::tasks {
namespace {

// Returns the configuration that a model of ours names.
std::optional<plan::QuantConfig> ConfigOf(const graph::Model& model) {
  const auto metadata = model.Metadata();
  const auto found = metadata.find(ops::kConfigMetadata);
  if (found == metadata.end()) return std::nullopt;
  return WithContext(std::string("the model's metadata"),
                     [&] { return plan::ConfigFromJson(found->second); });
}

// Returns the model without operators that compute with packed weights.
graph::Model Expanded(const graph::Model& model) {
  graph::Model expanded = model.Clone();
  weights::ExpandPackedNodes(expanded);
  return expanded;
}

class Reporter {
 public:
  explicit Reporter(const ReportOptions& options)
      : options_(options),
        quantized_(LoadQuantized(options.model)),
        described_(WithContext(Quoted(options.model), [&] { return Expanded(quantized_); })),
        config_(WithContext(Quoted(options.model), [&] { return ConfigOf(quantized_); })),
        given_plan_(options.plan_file.empty() ? std::nullopt
                                              : std::optional(ReadPlan(options.plan_file))),
        reference_(rewrite::Prepare(options.reference,
                                    {.preparation = options.preparation, .rewrites = Rewrites()})),
        pool_(options.num_threads) {}

  report::Report Run() {
    result_.version = Version();
    result_.model = PathText(options_.model.filename());
    result_.reference = PathText(options_.reference.filename());
    result_.file_bytes = graph::StoredBytes(options_.model);
    result_.reference_bytes = graph::StoredBytes(options_.reference);
    if (!options_.calibration.empty()) {
      table_ = LoadTable(reference_, Rewrites(), options_.calibration);
    }
    if (!options_.search.empty()) result_.search = ReadSearchReport(options_.search);
    result_.trials = options_.trials;
    if (config_) {
      result_.config = config_->name;
      result_.settings = report::ChangedSettings(*config_);
    }
    constants_ = WithContext(Quoted(options_.model), [&] {
      return weights::StoredConstants(graph::Model::Load(options_.model));
    });
    result_.sizes = report::SizesOf(constants_, result_.file_bytes);
    AddLayers();
    if (options_.samples.is_given()) Measure();
    AddActivations();
    AddKeptFloat();
    result_.notes = report::NotesOf(result_, layers_, Rewrites().equalization.has_value());
    AddCommands();
    return std::move(result_);
  }

 private:
  static std::string Quoted(const std::filesystem::path& path) {
    return fmt::format("'{}'", PathText(path));
  }

  static graph::Model LoadQuantized(const std::filesystem::path& path) {
    graph::Model model = graph::Model::Load(path);
    graph::LiftBodyConstants(model);
    return model;
  }

  plan::Rewrites Rewrites() const {
    if (options_.quantized != nullptr) return options_.quantized->plan.rewrites;
    if (given_plan_) return given_plan_->rewrites;
    return config_ ? plan::ResolveRewrites(*config_) : plan::Rewrites{};
  }

  void AddLayers() {
    layers_ = report::FindLayers(reference_, described_);
    report::WeightOptions weights;
    weights.progress = options_.progress;
    if (config_ && (config_->smooth_quant || HasAwq())) {
      weights.incomparable =
          "SmoothQuant or AWQ moved scales between activations and weights: not comparable";
    }
    report::DescribeLayers(reference_, described_, layers_, weights, pool_, result_.layers,
                           result_.tensors);
    report::NameStoredFormats(constants_, result_.tensors);
    if (options_.quantized == nullptr) return;
    for (const finetune::TunedLayerReport& learned : options_.quantized->finetune.layers) {
      const auto layer =
          std::ranges::find(result_.layers, learned.node, &report::LayerReport::node);
      if (layer == result_.layers.end() || !learned.is_tuned) continue;
      layer->learned = {learned.error_before, learned.error_after};
      layer->validated_on =
          WordOf<finetune::ValidatedOn>(finetune::kValidatedOnWords, learned.validated_on);
      layer->taken_from = fmt::format("{} ({})", learned.taken_from, learned.choice);
    }
    for (const finetune::TunedBlockReport& block : options_.quantized->finetune.blocks.blocks) {
      if (!block.is_tuned) continue;
      for (report::LayerReport& layer : result_.layers) {
        const bool is_inside =
            std::ranges::any_of(layer.weights, [&](const report::WeightReport& weight) {
              return std::ranges::count(block.weights, weight.tensor) > 0;
            });
        if (!is_inside) continue;
        layer.learned = {block.validation_before, block.validation_after};
        layer.validated_on = WordOf<finetune::ValidatedOn>(finetune::kValidatedOnWords,
                                                           finetune::ValidatedOn::kHeldBack);
        layer.taken_from = fmt::format("blocks (errors of the block of '{}', step {})",
                                       block.output, block.best_step);
      }
    }
  }

  bool HasAwq() const {
    return std::ranges::find(config_->finetune, plan::FinetunePass::kAwq) !=
           config_->finetune.end();
  }

  RunOptions LayerRun() const { return options_.First(options_.num_layer_samples); }

  void Measure() {
    EvaluateOptions evaluation;
    static_cast<RunOptions&>(evaluation) = options_;
    evaluation.model = options_.model;
    evaluation.reference = options_.reference;
    evaluation.batch_size = options_.batch_size;
    evaluation.task = options_.task;
    const std::string& image = options_.samples.image;
    const bool is_bgr = !image.empty() && data::ParseImageSpec(image).bgr;
    evaluation.on_picture = [&](const evaluate::TaskPicture& picture) {
      if (auto made = report::MakePicture(picture, is_bgr)) {
        result_.pictures.push_back(std::move(*made));
      }
    };
    result_.evaluation = Evaluate(evaluation);
    result_.num_layer_samples =
        std::min(result_.evaluation->num_samples, options_.num_layer_samples);
    if (options_.calibration.empty()) {
      table_ = GatherStatistics(reference_, result_.reference,
                                calibrate::FloatActivations(reference_), LayerRun())
                   .table;
    }
    CompareOutputs();
  }

  // Returns the number of a value's elements in one run. It is an estimate if there are no
  // statistics and dimensions are not known.
  uint64_t ElementsOf(const std::string& value) const {
    const auto statistics = table_.tensors.find(value);
    if (statistics != table_.tensors.end() && table_.num_samples > 0) {
      return statistics->second.num_elements() / table_.num_samples;
    }
    constexpr double kUnknown = 64;
    constexpr double kMost = 1e15;  // no tensor of a model that runs
    double elements = 1;
    for (const graph::Dimension& dim : reference_.InfoOf(value).shape) {
      elements *= dim.value > 0 ? static_cast<double>(dim.value) : kUnknown;
    }
    return static_cast<uint64_t>(std::min(elements, kMost));
  }

  void CompareOutputs() {
    std::vector<report::ValuePair> pairs;
    std::vector<size_t> of_layer;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string& output = layers_[i].output;
      const bool is_in_body = reference_.Owner(layers_[i].node).has_value();
      if (is_in_body || layers_[i].quantized_output.empty()) continue;
      pairs.push_back({output, layers_[i].quantized_output, ElementsOf(output)});
      of_layer.push_back(i);
    }
    const std::vector<std::optional<double>> noises =
        report::CompareValues(reference_, quantized_, pairs, *OpenSamples(reference_, LayerRun()),
                              {.num_threads = options_.num_threads, .progress = options_.progress});
    for (size_t i = 0; i < noises.size(); ++i) {
      result_.layers[of_layer[i]].output_noise = noises[i];
    }
  }

  void AddActivations() {
    activation_formats_ = report::QuantizedActivations(described_);
    for (const std::string& value : calibrate::FloatActivations(reference_)) {
      const auto statistics = table_.tensors.find(value);
      if (statistics == table_.tensors.end()) continue;
      report::TensorReport tensor;
      tensor.name = value;
      tensor.format = "float";
      if (const auto format = activation_formats_.find(value);
          format != activation_formats_.end()) {
        tensor.format = format->second.format;
        tensor.range = format->second.range;
      }
      for (const graph::Dimension& dim : reference_.InfoOf(value).shape) {
        tensor.dims.push_back(dim.value);
      }
      report::Describe(statistics->second, tensor);
      result_.tensors.push_back(std::move(tensor));
    }
  }

  // Returns the plan behind the model, as far as it is known.
  std::optional<plan::QuantPlan> Decisions() const {
    if (options_.quantized != nullptr) return options_.quantized->plan;
    if (given_plan_) return given_plan_;
    if (!config_) return std::nullopt;
    return plan::MakePlan(*config_, reference_, result_.reference);
  }

  void AddKeptFloat() {
    report::KeptFloatSources sources{
        .model = described_, .layers = layers_, .constants = constants_};
    sources.plan = Decisions();
    sources.is_plan_exact = options_.quantized != nullptr || given_plan_;
    if (options_.quantized != nullptr) sources.left_float = options_.quantized->left_float;
    result_.kept_float = report::ListKeptFloat(sources, result_);
  }

  void AddCommands() {
    if (!options_.plan_file.empty()) {
      result_.commands.emplace_back(
          "Quantize",
          report::QuantizeCommand(options_.plan_file, result_.reference, result_.model));
    } else if (config_ && options_.quantized == nullptr) {
      result_.commands.emplace_back(
          "Quantize", report::QuantizeCommand(*config_, result_.reference, result_.model));
    }
    result_.commands.insert(result_.commands.end(), options_.commands.begin(),
                            options_.commands.end());
    if (options_.samples.folder.empty()) return;
    result_.commands.emplace_back(
        "Evaluate",
        report::EvaluateCommand(result_.model, {{"--reference", result_.reference},
                                                {"--data", PathText(options_.samples.folder)},
                                                {"--labels", PathText(options_.samples.labels_csv)},
                                                {"--image", options_.samples.image}}));
  }

  const ReportOptions& options_;
  graph::Model quantized_;
  graph::Model described_;  // Expanded(quantized_)
  std::optional<plan::QuantConfig> config_;
  std::optional<plan::QuantPlan> given_plan_;
  graph::Model reference_;
  ThreadPool pool_;
  report::Report result_;
  std::vector<weights::StoredConstant> constants_;
  std::vector<report::MatchedLayer> layers_;
  calibrate::CalibrationTable table_;
  std::map<std::string, report::ActivationFormat> activation_formats_;
};

// Throws Error if the page would overwrite an input, such as the model that it is about.
void CheckKeepsInputs(const ReportOptions& options) {
  const std::filesystem::path* const inputs[] = {&options.model, &options.reference,
                                                 &options.calibration, &options.plan_file,
                                                 &options.search};
  for (const std::filesystem::path* const written : {&options.output, &options.json}) {
    for (const std::filesystem::path* const input : inputs) {
      std::error_code error;
      if (!std::filesystem::equivalent(*written, *input, error)) continue;
      Fail(ErrorCode::kInvalidArgument, "'{}' is to be read and to be written: choose another name",
           written->string());
    }
  }
}

}  // namespace

report::Report WriteReport(const ReportOptions& options) {
  // Before any work.
  CheckKeepsInputs(options);
  AtomicFile page(options.output);
  JsonFile json(options.json);
  report::Report report = Reporter(options).Run();
  page.Write(report::ToHtml(report));
  page.Commit();
  json.Write(report::ToJson(report));
  return report;
}

}  // namespace bitpress::tasks
