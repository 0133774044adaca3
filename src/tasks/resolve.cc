#include "tasks/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "calibrate/compared_values.h"
#include "calibrate/guard.h"
#include "calibrate/limit_shifts.h"
#include "calibrate/resolve_caches.h"
#include "calibrate/resolve_params.h"
#include "calibrate/resolve_plan.h"
#include "calibrate/weight_ranges.h"
#include "data/source.h"
#include "graph/half_values.h"
#include "interop/import_weights.h"
#include "ops/quantizer_nodes.h"
#include "plan/make_plan.h"
#include "plan/target_profile.h"
#include "rewrite/prepare.h"
#include "runtime/machine.h"
#include "tasks/cache_scales.h"
#include "tasks/calibrate.h"
#include "tasks/guard_task.h"
#include "tasks/passes.h"
#include "tasks/plan.h"
#include "tasks/shared_work.h"
#include "tasks/smooth.h"

namespace bitpress::tasks {
namespace {

// Every k-th sample is held out to validate the calibration.
constexpr size_t kHoldBackEvery = 8;

using Statistics = std::shared_ptr<const calibrate::CalibrationResult>;

Statistics Share(calibrate::CalibrationTable table) {
  return std::make_shared<const calibrate::CalibrationResult>(
      calibrate::CalibrationResult{.table = std::move(table)});
}

PreparationKey KeyOf(const QuantizeOptions& options, const plan::Rewrites& rewrites) {
  return {options.preparation, rewrites, options.disabled_passes};
}

// Returns the statistics that a plan's integers need, from a file or from samples; empty if it
// needs none.
Statistics StatisticsFor(const graph::Model& model, const plan::QuantPlan& plan,
                         const QuantizeOptions& options) {
  const std::vector<std::string> values = calibrate::ValuesToCalibrate(plan);
  if (values.empty()) return Share({});
  if (!options.calibration.empty()) {
    return Share(LoadTable(model, plan.rewrites, options.calibration));
  }
  if (!options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "configuration '{}' gives activations or caches scales that follow from samples: give "
         "samples "
         "({}; for photos also {}), or a file of `bitpress calibrate` ({})",
         plan.config.name, OptionName("data"), OptionName("image"), OptionName("calibration"));
  }
  calibrate::CalibrateOptions calibration;
  calibration.axes = calibrate::ChannelsToCalibrate(plan, model);
  calibration.caches = calibrate::CachesToCalibrate(plan);
  calibration.hold_back_every = kHoldBackEvery;
  calibration.adds_sums = calibrate::NeedsSums(plan);
  const auto gather = [&] {
    return GatherStatistics(model, PathText(options.model.filename()), values, options,
                            calibration);
  };
  // Smoothing with other settings gives the values other numbers.
  if (!options.shared || plan.config.smooth_quant) {
    return std::make_shared<const calibrate::CalibrationResult>(gather());
  }
  return options.shared->statistics.Get(
      {KeyOf(options, plan.rewrites), values, calibration.axes, calibration.caches,
       options.samples.limit, calibration.adds_sums},
      gather);
}

// The float model, with the data that its plan depends on.
struct Prepared {
  graph::Model model;
  // The statistics from before the model was smoothed, which changes its values.
  std::optional<calibrate::CalibrationTable> table;
};

// Loads and prepares the model of the options.
PreparedModel PrepareAnew(const QuantizeOptions& options, const plan::Rewrites& rewrites) {
  graph::Model given = runtime::LoadPortable(options.model);
  // Preparing folds operators that decode constants.
  auto already_quantized = ops::QuantizedOperators(given);
  const graph::StoredParts input_parts = graph::MeasureParts(given);
  const uint64_t input_bytes = given.file_bytes();
  rewrite::RewriteReport rewritten;
  graph::Model model = rewrite::Prepare(std::move(given), options.model,
                                        {.preparation = options.preparation,
                                         .rewrites = rewrites,
                                         .disabled_passes = options.disabled_passes},
                                        &rewritten);
  return {std::move(model), std::move(rewritten), std::move(already_quantized), input_parts,
          input_bytes};
}

PreparedModel Prepare(const QuantizeOptions& options, const plan::Rewrites& rewrites) {
  if (!options.shared) return PrepareAnew(options, rewrites);
  const auto shared = options.shared->prepared.Get(KeyOf(options, rewrites),
                                                   [&] { return PrepareAnew(options, rewrites); });
  return {shared->model.Clone(), shared->rewritten, shared->already_quantized, shared->input_parts,
          shared->input_bytes};
}

// Returns the values of the float network that FLOAT16 would make infinite on inputs somewhat
// larger than the samples, sorted. The network may be right without them, so that samples which
// cannot be read or run are no error here.
std::vector<std::string> FindWideValues(const QuantizeOptions& options, plan::Rewrites rewrites) {
  constexpr size_t kMostSamples = 32;
  constexpr float kMostMagnitude = graph::kLargestHalf / 4;
  rewrites.half.reset();
  std::vector<std::string> wide;
  try {
    const PreparedModel floats = Prepare(options, rewrites);
    calibrate::CalibrateOptions calibration;
    calibration.adds_sums = false;
    const calibrate::CalibrationTable table =
        GatherStatistics(floats.model, PathText(options.model.filename()),
                         calibrate::FloatActivations(floats.model), options.First(kMostSamples),
                         calibration)
            .table;
    for (const auto& [value, statistics] : table.tensors) {
      if (statistics.AbsMax() > kMostMagnitude) wide.push_back(value);
    }
  } catch (const Error&) {
    return {};
  }
  return wide;
}

Prepared PrepareModel(const QuantizeOptions& options, const plan::QuantConfig& config,
                      const plan::Rewrites& rewrites, QuantizeReport& report) {
  PreparedModel made = Prepare(options, rewrites);
  report.already_quantized = std::move(made.already_quantized);
  report.input_parts = made.input_parts;
  report.input_bytes = made.input_bytes;
  report.rewritten = std::move(made.rewritten);
  Prepared prepared{std::move(made.model), std::nullopt};
  if (!config.smooth_quant || options.disabled_passes.contains(kSmoothPass)) return prepared;
  const auto smooth = [&](graph::Model& model) {
    if (!options.calibration.empty()) {
      prepared.table = LoadTable(model, rewrites, options.calibration);
    }
    SmoothTaskOptions settings;
    static_cast<RunOptions&>(settings) = options;
    settings.alpha = config.smooth_quant->alpha;
    settings.model_name = PathText(options.model.filename());
    settings.calibration = options.calibration;
    // A plan names the values of the model as it is.
    settings.may_insert = !options.has_plan();
    report.smoothed = SmoothModel(model, settings, prepared.table);
    return !report.smoothed->smoothed.empty();
  };
  WithContext(fmt::format("'{}'", PathText(options.model)),
              [&] { graph::RunPass(prepared.model, kSmoothPass, smooth); });
  return prepared;
}

// Chooses the method of weights with weight_range=auto by the outputs, where there are samples. The
// model is right without them, so that those which cannot be read or run are no error here.
std::optional<calibrate::WeightRangeReport> ChooseWeightRange(plan::ResolvedPlan& resolved,
                                                              const graph::Model& model,
                                                              const QuantizeOptions& options,
                                                              ThreadPool& pool) {
  if (!options.samples.is_given() || !calibrate::HasWeightRangeToChoose(resolved)) return {};
  try {
    const auto samples = OpenSamples(model, options.First(calibrate::kMostGuardCandidates));
    return calibrate::ChooseWeightRange(resolved, model, pool,
                                        {samples.get(), options.num_threads, options.progress});
  } catch (const Error&) {
    return {};
  }
}

// Gives the plan its scales.
plan::ResolvedPlan Resolve(plan::QuantPlan plan, Prepared& prepared, const QuantizeOptions& options,
                           ThreadPool& pool, QuantizeReport& report) {
  const Statistics statistics = prepared.table ? Share(std::move(*prepared.table))
                                               : StatisticsFor(prepared.model, plan, options);
  if (statistics->parts) {
    report.held_back = calibrate::CompareHeldBack(plan, statistics->table, *statistics->parts);
  }
  // The guard has nothing to do where no scale is chosen from statistics.
  const bool is_guarded = plan.config.guard && !calibrate::ValuesToCalibrate(plan).empty();
  std::unique_ptr<data::Source> samples;
  if (is_guarded && options.samples.is_given()) {
    samples = OpenSamples(prepared.model, options.First(calibrate::kMostGuardCandidates));
  }
  calibrate::GuardOptions guard{samples.get(), options.num_threads, options.progress};
  if (samples) guard.task = GuardTask(options.task, prepared.model, options);
  plan::ResolvedPlan resolved = calibrate::ResolvePlan(
      std::move(plan), prepared.model, statistics->table, pool, samples ? &guard : nullptr);
  if (is_guarded && !samples) {
    resolved.guard.emplace().note =
        fmt::format("it needs samples besides the statistics: give {} too", OptionName("data"));
  }
  report.weight_range = ChooseWeightRange(resolved, prepared.model, options, pool);
  return resolved;
}

}  // namespace

namespace {

// Throws if the configuration changes what the weights of another tool are the codes of.
void CheckImport(const QuantizeOptions& options) {
  const plan::Rewrites rewrites = plan::ResolveRewrites(options.config);
  std::string why;
  if (options.has_plan()) why = "a plan";
  if (!options.config.finetune.empty()) why = "finetune";
  if (options.config.smooth_quant) why = "smooth_quant";
  if (rewrites.equalization) why = "equalize";
  if (rewrites.rotation) why = "rotate";
  if (rewrites.half) why = "FLOAT16";
  if (why.empty()) return;
  Fail(ErrorCode::kInvalidArgument, "{} keeps the codes of another tool, and {} would change them",
       OptionName("weights_from"), why);
}

}  // namespace

ResolvedModel ResolveModel(const QuantizeOptions& given, ThreadPool& pool, QuantizeReport& report) {
  QuantizeOptions options = given;
  options.samples.shard = {};
  const bool has_plan = options.has_plan();
  const plan::TargetProfile target = plan::ProfileOf(options.target);
  report.target_runtime = target.runtime;
  if (!has_plan) report.target_settings = plan::AdaptTo(target, options.config);
  if (has_plan) report.plan = options.plan ? *options.plan : ReadPlan(options.plan_file);
  if (has_plan && options.change_plan) options.change_plan(report.plan.config);
  if (!options.weights_from.empty()) CheckImport(options);
  const plan::QuantConfig& config = has_plan ? report.plan.config : options.config;
  static_cast<RunOptions&>(options) = options.ForCalibration(config.calibration_samples);
  plan::Rewrites rewrites = has_plan ? report.plan.rewrites : plan::ResolveRewrites(config);
  if (rewrites.half && options.samples.is_given()) {
    rewrites.half->wide_values = FindWideValues(options, rewrites);
  }
  Prepared prepared = PrepareModel(options, config, rewrites, report);
  report.prepared_parts = graph::MeasureParts(prepared.model);
  std::optional<interop::ImportedWeights> imported;
  if (!options.weights_from.empty()) {
    imported = interop::ImportWeights(options.weights_from, prepared.model, pool);
    report.imported = imported->report;
  }
  for (const calibrate::ComparedValue& value : calibrate::ComparedValues(prepared.model)) {
    if (value.reader) report.chosen_outputs.insert(value.output);
  }
  if (has_plan) {
    WithContext(fmt::format("plan '{}'", PathText(options.plan_file)),
                [&] { plan::CheckFits(report.plan, prepared.model); });
  } else {
    report.plan = plan::MakePlan(options.config, prepared.model, PathText(options.model.filename()),
                                 &report.unmatched_words);
    plan::FixScales(target, prepared.model, report.plan);
    if (imported) interop::GiveFormats(*imported, prepared.model, report.plan);
  }
  report.plan.rewrites = std::move(rewrites);
  if (report.plan.config.mean_bits > 0) {
    report.mean_bits = plan::MeanBitsOf(report.plan, prepared.model);
  }
  plan::CheckRules(target, report.plan, prepared.model);
  if (!options.cache_scales_output.empty()) CheckHasCacheScales(report.plan);
  if (!options.cache_scales.empty()) {
    ReadCacheScales(options.cache_scales, report.plan);
    plan::CheckFits(report.plan, prepared.model);
  }
  if (prepared.table && report.smoothed) UseExtremes(report.plan, *report.smoothed);
  plan::ResolvedPlan resolved = WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    return Resolve(std::move(report.plan), prepared, options, pool, report);
  });
  if (imported) interop::GiveScales(std::move(*imported), resolved);
  if (!imported) {
    report.target_scales = calibrate::LimitShifts(target, prepared.model, resolved, pool);
  }
  return {std::move(prepared.model), std::move(resolved)};
}

graph::Model PreparedFor(const QuantizeOptions& options, const plan::QuantConfig& config) {
  return Prepare(options, plan::ResolveRewrites(config)).model;
}

finetune::FinetuneOptions FinetuneOptionsFor(const plan::QuantConfig& config,
                                             const RunOptions& options) {
  finetune::FinetuneOptions finetune;
  finetune.passes = config.finetune;
  const plan::FinetuneSettings& settings = config.finetune_settings;
  finetune.tuner.ridge = settings.ridge;
  finetune.tuner.num_rounds =
      static_cast<int>(std::min<int64_t>(settings.num_rounds, std::numeric_limits<int>::max()));
  finetune.tuner.activation_order = settings.activation_order;
  finetune.tuner.refresh_scales = settings.refresh_scales;
  finetune.gather.hold_back_every = static_cast<size_t>(settings.hold_back_every);
  finetune.gather.num_positions = settings.num_positions;
  finetune.gather.seed = static_cast<uint64_t>(settings.seed);
  finetune.gather.memory_limit = static_cast<uint64_t>(settings.memory_mb) * 1'000'000;
  finetune.gather.is_spilled = settings.spills;
  finetune.op_types = settings.op_types;
  finetune.adds_biases = settings.adds_biases;
  finetune.num_steps = static_cast<size_t>(settings.num_steps);
  finetune.gather.num_threads = options.num_threads;
  finetune.gather.progress = options.progress;
  return finetune;
}

RunOptions FinetuneSamples(const plan::QuantConfig& config, const RunOptions& options) {
  if (!options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "configuration '{}' learns weights from samples (finetune={}): give samples ({}; for "
         "photos also {})",
         config.name, plan::FinetunePassNames(config.finetune), OptionName("data"),
         OptionName("image"));
  }
  if (options.samples.part_of) return options;  // whoever divides them knows how many count
  auto most = static_cast<size_t>(config.finetune_settings.num_samples);
  if (most == 0) most = options.samples.limit;
  if (most == 0) most = size_t{plan::kDefaultFinetuneSamples};
  return options.First(most);
}

}  // namespace bitpress::tasks
