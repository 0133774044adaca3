// The page about a quantized model: what the rooms know of it, put together.

#include "tasks/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
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
#include "report/quantizers.h"
#include "rewrite/prepare.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "tasks/inspect.h"
#include "tasks/plan.h"
#include "tasks/samples.h"
#include "tasks/search.h"

namespace bitpress::tasks {
namespace {

using Json = nlohmann::ordered_json;

// The configuration that a model of ours names.
std::optional<plan::QuantConfig> ConfigOf(const graph::Model& model) {
  const auto metadata = model.Metadata();
  const auto found = metadata.find(ops::kConfigMetadata);
  if (found == metadata.end()) return std::nullopt;
  return WithContext(std::string("the model's metadata"),
                     [&] { return plan::ConfigFromJson(found->second); });
}

class Reporter {
 public:
  explicit Reporter(const ReportOptions& options)
      : options_(options),
        quantized_(LoadQuantized(options.model)),
        config_(WithContext(Quoted(options.model), [&] { return ConfigOf(quantized_); })),
        given_plan_(options.plan_file.empty() ? std::nullopt
                                              : std::optional(ReadPlan(options.plan_file))),
        reference_(rewrite::Prepare(options.reference, {.preparation = options.preparation,
                                                        .equalization = Equalization()})),
        pool_(options.num_threads) {}

  report::Report Run() {
    result_.version = Version();
    result_.model = options_.model.filename().string();
    result_.reference = options_.reference.filename().string();
    result_.file_bytes = graph::StoredBytes(options_.model);
    result_.reference_bytes = graph::StoredBytes(options_.reference);
    if (!options_.calibration.empty()) {
      table_ = LoadTable(reference_, Equalization(), options_.calibration);
    }
    if (!options_.search.empty()) result_.search = ReadSearchReport(options_.search);
    AddConfig();
    AddSizes();
    AddLayers();
    if (options_.samples.is_given()) Measure();
    AddActivations();
    AddKeptFloat();
    AddNotes();
    AddCommands();
    return std::move(result_);
  }

 private:
  static std::string Quoted(const std::filesystem::path& path) {
    return fmt::format("'{}'", path.string());
  }

  static graph::Model LoadQuantized(const std::filesystem::path& path) {
    graph::Model model = graph::Model::Load(path);
    graph::LiftBodyConstants(model);
    return model;
  }

  std::optional<plan::EqualizeOptions> Equalization() const {
    if (options_.quantized != nullptr) return options_.quantized->plan.equalization;
    if (given_plan_) return given_plan_->equalization;
    return config_ ? plan::ResolveEqualization(*config_) : std::nullopt;
  }

  void AddConfig() {
    if (!config_) return;
    result_.config = config_->name;
    const Json defaults = Json::parse(plan::ToJson(plan::QuantConfig()));
    const Json settings = Json::parse(plan::ToJson(*config_));
    result_.settings = Json::object();
    for (const auto& [key, value] : settings.items()) {
      if (!defaults.contains(key) || defaults[key] != value) result_.settings[key] = value;
    }
  }

  void AddSizes() {
    constants_ = Inspect(options_.model).constants;
    std::map<std::string, report::FormatSize> sizes;
    uint64_t rest = result_.file_bytes;
    for (const weights::StoredConstant& constant : constants_) {
      report::FormatSize& size = sizes[constant.format];
      size.format = constant.format;
      ++size.num_tensors;
      size.num_elements += static_cast<uint64_t>(constant.num_elements());
      size.num_bytes += constant.num_bytes;
      rest -= std::min(rest, constant.num_bytes);
    }
    for (const auto& [format, size] : sizes) result_.sizes.push_back(size);
    result_.sizes.push_back({"graph", 0, 0, rest});
    std::ranges::stable_sort(result_.sizes, std::ranges::greater(), &report::FormatSize::num_bytes);
  }

  void AddLayers() {
    layers_ = report::FindLayers(reference_, quantized_);
    report::WeightOptions weights;
    weights.progress = options_.progress;
    if (config_ && (config_->smooth || HasAwq())) {
      weights.incomparable =
          "SmoothQuant or AWQ moved scales between activations and weights: not comparable";
    }
    report::DescribeLayers(reference_, quantized_, layers_, weights, pool_, result_.layers,
                           result_.tensors);
    std::map<std::string, std::string> formats;
    for (const weights::StoredConstant& constant : constants_) {
      const bool holds_values = !constant.held_format.empty();
      formats[constant.name] = holds_values ? constant.held_format + " as floats" : constant.format;
    }
    for (report::TensorReport& tensor : result_.tensors) {
      for (const std::string suffix : {"", "_codes", "_quantized"}) {
        const auto found = formats.find(tensor.name + suffix);
        if (found == formats.end()) continue;
        tensor.format = found->second;
        break;
      }
    }
    if (options_.quantized == nullptr) return;
    for (const finetune::TunedLayerReport& learned : options_.quantized->finetune.layers) {
      const auto layer =
          std::ranges::find(result_.layers, learned.node, &report::LayerReport::node);
      if (layer == result_.layers.end() || !learned.is_tuned) continue;
      layer->learned = {learned.error_before, learned.error_after};
      layer->judged_by = finetune::JudgeName(learned.judge);
    }
  }

  bool HasAwq() const {
    return std::ranges::find(config_->finetune, plan::FinetunePass::kAwq) !=
           config_->finetune.end();
  }

  std::unique_ptr<data::Source> OpenLayerSamples() const {
    return OpenSamples(reference_, options_.samples.First(options_.num_layer_samples),
                       options_.num_threads);
  }

  void Measure() {
    EvaluateOptions evaluation;
    evaluation.samples = options_.samples;
    evaluation.num_threads = options_.num_threads;
    evaluation.progress = options_.progress;
    evaluation.model = options_.model;
    evaluation.reference = options_.reference;
    evaluation.batch_size = options_.batch_size;
    result_.evaluation = Evaluate(evaluation);
    result_.num_layer_samples =
        std::min(result_.evaluation->num_samples, options_.num_layer_samples);
    if (options_.calibration.empty()) GatherStatistics();
    CompareOutputs();
  }

  void GatherStatistics() {
    calibrate::CalibrateOptions calibration;
    calibration.num_threads = options_.num_threads;
    calibration.progress = options_.progress;
    table_ =
        calibrate::Calibrate(reference_, result_.reference, calibrate::FloatActivations(reference_),
                             *OpenLayerSamples(), calibration)
            .table;
  }

  // Of one run; about, where dimensions are not known and no statistics either.
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
      const std::string& output = layers_[i].node.output(0);
      const bool is_in_body = reference_.Owner(layers_[i].node).has_value();
      if (is_in_body || layers_[i].quantized_output.empty()) continue;
      pairs.push_back({output, layers_[i].quantized_output, ElementsOf(output)});
      of_layer.push_back(i);
    }
    const std::vector<std::optional<double>> noises =
        report::CompareValues(reference_, quantized_, pairs, *OpenLayerSamples(),
                              {.num_threads = options_.num_threads, .progress = options_.progress});
    for (size_t i = 0; i < noises.size(); ++i) {
      result_.layers[of_layer[i]].output_noise = noises[i];
    }
  }

  void AddActivations() {
    activation_formats_ = report::QuantizedActivations(quantized_);
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

  // The decisions behind the model, as far as they are known.
  std::optional<plan::QuantPlan> Decisions() const {
    if (options_.quantized != nullptr) return options_.quantized->plan;
    if (given_plan_) return given_plan_;
    if (!config_) return std::nullopt;
    return plan::MakePlan(*config_, reference_, result_.reference);
  }

  void AddKeptFloat() {
    std::set<std::string> seen;
    const auto add = [&](const std::string& value, plan::Role role, std::string reason) {
      if (!seen.insert(value).second) return;
      result_.kept_float.push_back({value, std::string(plan::RoleName(role)), std::move(reason)});
    };
    const std::optional<plan::QuantPlan> plan = Decisions();
    if (!plan) {
      AddFloatInputs(add);
      return;
    }
    for (const plan::TensorPlan& row : plan->tensors) {
      if (!row.is_quantized() && IsFloatInFile(row)) add(row.value, row.role, row.reason);
    }
    if (options_.quantized == nullptr) return;
    for (const auto& [value, reason] : options_.quantized->left_float) {
      add(value, plan::Role::kActivation, reason);
    }
  }

  // A plan that was made anew from the configuration may differ from the one that made the model.
  bool IsFloatInFile(const plan::TensorPlan& row) const {
    if (options_.quantized != nullptr || given_plan_) return true;
    if (row.role == plan::Role::kActivation) return !activation_formats_.contains(row.value);
    const auto constant = std::ranges::find(constants_, row.value, &weights::StoredConstant::name);
    return constant != constants_.end() && constant->format == "FLOAT";
  }

  // Of a model whose plan is not known: what layers read as floats.
  template <typename Add>
  void AddFloatInputs(const Add& add) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const report::LayerReport& layer = result_.layers[i];
      const std::string where = "the model does not say why";
      if (!layer.input.empty() && layer.input_format == "float") {
        add(layer.input, plan::Role::kActivation, where);
      }
      for (const report::WeightReport& weight : layer.weights) {
        const auto tensor =
            std::ranges::find(result_.tensors, weight.tensor, &report::TensorReport::name);
        if (tensor != result_.tensors.end() && tensor->format == "FLOAT") {
          add(weight.tensor, plan::Role::kWeight, where);
        }
      }
    }
  }

  void AddNotes() {
    if (!config_) {
      result_.notes.push_back(
          "The model does not say how it was made: layers are matched by the "
          "names of their outputs.");
    }
    if (Equalization()) {
      result_.notes.push_back(
          "Layers were equalized before they were quantized; they are compared with the equalized "
          "float model.");
    }
    if (result_.evaluation && !result_.evaluation->processor.nodes.empty()) {
      result_.notes.push_back(
          fmt::format("On x86 processors without VNNI {}.",
                      evaluate::DescribeSaturation(result_.evaluation->processor)));
    }
    const auto lost = std::ranges::count_if(
        layers_, [](const report::MatchedLayer& layer) { return !layer.quantized; });
    if (lost > 0) {
      result_.notes.push_back(
          fmt::format("{} of {} layers of the float model were not found in this model.", lost,
                      layers_.size()));
    }
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
                                                {"--data", options_.samples.folder.string()},
                                                {"--labels", options_.samples.labels_csv.string()},
                                                {"--image", options_.samples.image}}));
  }

  const ReportOptions& options_;
  graph::Model quantized_;
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

// A page instead of the model that it is about would be a loss.
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
  std::optional<AtomicFile> json;
  if (!options.json.empty()) json.emplace(options.json);
  report::Report report = Reporter(options).Run();
  page.Write(report::ToHtml(report));
  page.Commit();
  if (json) {
    json->Write(report::ToJson(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    json->Commit();
  }
  return report;
}

}  // namespace bitpress::tasks
