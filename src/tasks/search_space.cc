#include "tasks/search_space.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/version.h"
#include "calibrate/calibrate.h"
#include "calibrate/resolve_caches.h"
#include "calibrate/resolve_params.h"
#include "calibrate/resolve_plan.h"
#include "data/kept_samples.h"
#include "emit/apply_plan.h"
#include "evaluate/measured_loss.h"
#include "plan/make_plan.h"
#include "rewrite/prepare.h"
#include "runtime/ort_library.h"
#include "runtime/session.h"
#include "tasks/calibrate.h"

namespace bitpress::tasks {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Returns the space of options that name variants.
search::Space VariantsOf(const SpaceOptions& options) {
  const bool has_candidates = !options.candidates.empty() || !options.weight_candidates.empty() ||
                              !options.activation_candidates.empty();
  if (has_candidates || !options.base) {
    Fail(ErrorCode::kInvalidArgument,
         "variants change a configuration{}: give the configuration and variants, or candidates",
         has_candidates ? ", and candidates replace it" : ", and there is none");
  }
  plan::QuantConfig base = *options.base;
  if (options.change_base) options.change_base(base);
  return search::MakeVariantSpace(std::move(base), options.variants);
}

search::Space SpaceOf(const SpaceOptions& options) {
  if (!options.variants.empty()) return VariantsOf(options);
  search::Space space =
      search::MakeSpace(search::ParseCandidates(options.candidates),
                        search::ParseCandidates(options.weight_candidates),
                        search::ParseCandidates(options.activation_candidates), options.base);
  if (options.change_base) options.change_base(space.base);
  return space;
}

}  // namespace

SearchSpace::SearchSpace(const SpaceOptions& options)
    : options_(options),
      space_(SpaceOf(options)),
      model_(rewrite::Prepare(options.model, {.preparation = options.preparation,
                                              .rewrites = plan::ResolveRewrites(space_.base)})) {
  options_.samples.kept = std::make_shared<data::KeptSamples>();  // for all trials
  if (space_.base.smooth_quant) {
    Fail(ErrorCode::kUnsupported,
         "smooth_quant changes the model that is searched: smooth it first, by quantize with the "
         "settings activations=none, weights=none and smooth_quant");
  }
  const size_t num_outputs = model_.OutputNames().size();
  if (options.output_index && *options.output_index >= num_outputs) {
    Fail(ErrorCode::kInvalidArgument, "there is no output {}; the model has {}: 0 to {}",
         *options.output_index, num_outputs, num_outputs - 1);
  }
  PlanParts();
  layers_ = search::FindSearchLayers(model_, parts_, options.selection);
  if (!layers_.found.empty()) return;
  if (options.selection.is_all() && !layers_.left_out.empty()) {
    const auto& [name, reason] = layers_.left_out.front();
    Fail(ErrorCode::kInvalidArgument,
         "there is no layer to search: none of {} layers can be measured, '{}' for one: {}",
         layers_.left_out.size(), name, reason);
  }
  Fail(ErrorCode::kInvalidArgument,
       "there is no layer to search: the candidates quantize no Conv, Gemm, MatMul or LSTM{}",
       options.selection.is_all() ? "" : " among the selected layers");
}

// Plans every part for the whole model, with scales from one pass over the samples.
void SearchSpace::PlanParts() {
  std::set<std::string> values;
  calibrate::CalibrateOptions calibration;
  const auto add_values = [&](const plan::QuantPlan& plan) {
    calibration.axes.merge(calibrate::ChannelsToCalibrate(plan, model_));
    calibration.caches.merge(calibrate::CachesToCalibrate(plan));
    for (std::string& value : calibrate::ValuesToCalibrate(plan)) values.insert(std::move(value));
  };
  std::vector<plan::QuantPlan> plans;
  for (const search::Part& part : space_.parts) {
    plans.push_back(plan::MakePlan(search::PartConfig(space_, part), model_, ""));
    add_values(plans.back());
  }
  add_values(plan::MakePlan(space_.base, model_, ""));
  if (!values.empty()) {
    const std::vector<std::string> watched(values.begin(), values.end());
    table_ = GatherStatistics(model_, PathText(options_.model.filename()), watched,
                              options_.ForCalibration(space_.base.calibration_samples),
                              std::move(calibration))
                 .table;
  }
  ThreadPool pool(options_.num_threads);
  for (plan::QuantPlan& plan : plans) {
    parts_.push_back(calibrate::ResolvePlan(std::move(plan), model_, table_, pool));
  }
}

size_t SearchSpace::NumSensitivitySamples() const {
  if (options_.num_sensitivity_samples > 0) return options_.num_sensitivity_samples;
  constexpr size_t kOfTokens = 2;  // each predicts a token at every position
  constexpr size_t kOfOthers = 32;
  return options_.samples.tokens.empty() ? kOfOthers : kOfTokens;
}

search::Sensitivity SearchSpace::Measure(const std::filesystem::path& journal,
                                         const std::string& key, bool measures_time,
                                         ThreadPool& pool, data::Shard layers) const {
  search::SensitivityOptions options;
  options.method = options_.method;
  options.measures_time = measures_time;
  options.num_threads = options_.num_threads;
  options.layers = layers;
  options.journal = journal;
  options.key = key;
  // Times are all that depends on the threads.
  if (measures_time) options.key += fmt::format(" with times on {} threads", options_.num_threads);
  options.output_index = options_.output_index;
  options.progress = options_.progress;
  const RunOptions run = options_.First(NumSensitivitySamples());
  if (!options_.samples.tokens.empty()) options.tokens = data::TokenInputs(model_);
  search::Sensitivity measured = search::MeasureSensitivity(
      model_, layers_, space_, parts_, *OpenSamples(model_, run), options, pool);
  if (layers.count == 1 && measured.layers.empty() && !measured.left_out.empty()) {
    const auto& [node, reason] = measured.left_out.front();
    Fail(ErrorCode::kUnsupported, "none of the {} layers can be measured: '{}': {}",
         measured.left_out.size(), node, reason);
  }
  return measured;
}

std::string SearchSpace::Key() const {
  Json key{{"bitpress", Version()},
           {"onnxruntime", runtime::OrtVersion()},
           {"model", model_.Fingerprint()},
           {"samples", OpenSamples(model_, options_)->Fingerprint()},
           {"sensitivity_samples", NumSensitivitySamples()},
           {"method", search::MethodName(options_.method)},
           {"base", plan::ToJson(space_.base)},
           {"op_types", options_.selection.op_types},
           {"names", options_.selection.names},
           {"kept_names", options_.selection.kept_names},
           {"task", options_.task},
           {"output_index", options_.output_index ? Json(*options_.output_index) : Json()}};
  for (const search::Part& part : space_.parts) {
    key["parts"].push_back(
        {search::SideName(part.side), plan::ToJson(search::PartConfig(space_, part))});
  }
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

plan::QuantPlan SearchSpace::PlanOf(const std::vector<search::LayerGroup>& groups,
                                    const search::Sensitivity& sensitivity,
                                    const search::Choice& choice) const {
  std::map<size_t, plan::Rule> rules;  // by combination
  for (size_t group = 0; group < groups.size(); ++group) {
    plan::Rule& rule = rules[choice[group]];
    for (const size_t layer : groups[group].layers) {
      rule.names.push_back(sensitivity.layers[layer].node);
    }
  }
  plan::QuantConfig config = space_.base;
  for (auto& [combination, rule] : rules) {
    rule.settings = search::RuleSettings(space_, space_.combinations[combination]);
    search::AddChoice(config, std::move(rule));
  }
  return plan::MakePlan(config, model_, PathText(options_.model.filename()));
}

plan::QuantPlan SearchSpace::PlanOfRest(const search::Sensitivity& sensitivity) const {
  plan::Rule rule;
  rule.exclude = true;
  for (const search::LayerLoss& layer : sensitivity.layers) rule.names.push_back(layer.node);
  plan::QuantConfig config = space_.base;
  config.rules.push_back(std::move(rule));
  return plan::MakePlan(config, model_, PathText(options_.model.filename()));
}

search::Measurement SearchSpace::MeasurePlan(plan::QuantPlan plan, size_t batch_size,
                                             const Trials& trials, ThreadPool& pool) const {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "trial.onnx";
  // The trial's, whose caches may be integers.
  std::optional<data::TokenInputs> tokens;
  std::unique_ptr<data::Source> samples;
  {
    emit::ApplyOptions apply;
    // The values are those of packed weights, and load faster.
    apply.storage = emit::Storage::kSimulated;
    apply.is_portable = trials.reference_metric() || runtime::FindOperatorLibrary().empty();
    // Samples that are no tokens hold caches of floats themselves.
    apply.keeps_interface = options_.samples.tokens.empty();
    const plan::ResolvedPlan resolved =
        calibrate::ResolvePlan(std::move(plan), model_, table_, pool);
    graph::Model model = model_.Clone();
    emit::ApplyPlan(model, resolved, apply, pool);
    if (!options_.samples.tokens.empty()) tokens.emplace(model);
    samples = OpenSamples(tokens ? model : model_, options_);
    model.Save(path, graph::ExternalData::kAlways);
  }
  evaluate::EvaluateOptions options;
  options.model = path;
  options.reference = options_.model;
  options.batch_size = batch_size;
  options.output_index = options_.output_index;
  options.task = options_.task;
  options.num_threads = runtime::SessionThreads(options_.num_threads);
  if (tokens) {
    options.tokens = std::move(tokens);
    options.reference_tokens = data::TokenInputs(model_);
    options.num_decoded = 0;
  }
  search::Measurement measurement =
      ToMeasurement(evaluate::Evaluate(options, *samples), trials, path);
  measurement.file_bytes = 0;  // not of the model that will be written
  return measurement;
}

search::Measurement ToMeasurement(const evaluate::EvaluationReport& report, const Trials& trials,
                                  const fs::path& model) {
  search::Measurement measurement;
  measurement.sqnr_db = report.sqnr_db.value_or(0);
  measurement.cosine = report.cosine.value_or(1);
  measurement.l2 = report.l2.value_or(0);
  measurement.agreement = report.agreement;
  if (report.language) {
    measurement.agreement = report.language->agreement;
    measurement.divergence = report.language->mean_divergence;
  }
  if (report.task) measurement.task_loss = report.task->loss;
  if (const auto loss = evaluate::LossOf(report)) {
    measurement.loss = loss->loss;
    const auto worst = evaluate::WorstHeadOf(report);
    measurement.loss_measure =
        worst ? fmt::format("{} of output '{}'", worst->loss_name, worst->output) : loss->measure;
  }
  measurement.top1 = report.top1;
  measurement.reference_top1 = report.reference_top1;
  measurement.file_bytes = report.file_bytes;
  measurement.metric = trials.MeasureOwn(model);
  measurement.reference_metric = trials.reference_metric();
  return measurement;
}

fs::path JournalBeside(const fs::path& output, const SpaceOptions& options, const char* suffix) {
  if (options.samples.opener) return {};
  fs::path journal = output;
  journal += suffix;
  return journal;
}

std::string KeyOf(const SearchSpace& space, const SpaceOptions& options) {
  return options.samples.opener ? "" : space.Key();
}

void RemoveJournal(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace bitpress::tasks
