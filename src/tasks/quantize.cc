#include "tasks/quantize.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/messages.h"
#include "base/thread_pool.h"
#include "calibrate/resolve_caches.h"
#include "calibrate/resolve_params.h"
#include "calibrate/resolve_plan.h"
#include "calibrate/shrink_file.h"
#include "data/source.h"
#include "ops/quantizer_nodes.h"
#include "plan/make_plan.h"
#include "rewrite/prepare.h"
#include "tasks/cache_scales.h"
#include "tasks/calibrate.h"
#include "tasks/passes.h"
#include "tasks/plan.h"
#include "tasks/smooth.h"
#include "tasks/write_model.h"

namespace bitpress::tasks {
namespace {

// Every so many samples, one also tells whether the others stand for it.
constexpr size_t kHoldBackEvery = 8;

// Returns the statistics that a plan's integers need, from a file or from samples; empty if it
// needs none. Fills in `held_back` if samples were held back.
calibrate::CalibrationTable TableFor(const graph::Model& model, const plan::QuantPlan& plan,
                                     const QuantizeOptions& options,
                                     std::optional<calibrate::HeldBackReport>& held_back) {
  const std::vector<std::string> values = calibrate::ValuesToCalibrate(plan);
  if (values.empty()) return {};
  if (!options.calibration.empty()) {
    return LoadTable(model, plan.rewrites, options.calibration);
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
  calibrate::CalibrationResult result = GatherStatistics(model, options.model.filename().string(),
                                                         values, options, std::move(calibration));
  if (result.parts) held_back = calibrate::CompareHeldBack(plan, result.table, *result.parts);
  return std::move(result.table);
}

std::filesystem::path JournalOf(std::filesystem::path output) { return output += ".journal"; }

finetune::Finetuned Finetune(graph::Model& model, plan::ResolvedPlan resolved,
                             const QuantizeOptions& options, ThreadPool& pool) {
  const plan::QuantPlan& plan = resolved.plan;
  if (!options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "configuration '{}' learns weights from samples (finetune={}): give samples ({}; for "
         "photos also {})",
         plan.config.name, plan::FinetunePassNames(plan.config.finetune), OptionName("data"),
         OptionName("image"));
  }
  finetune::FinetuneOptions finetune;
  finetune.passes = plan.config.finetune;
  const plan::FinetuneSettings& settings = plan.config.finetune_settings;
  finetune.tuner.ridge = settings.ridge;
  finetune.tuner.num_rounds =
      static_cast<int>(std::min<int64_t>(settings.num_rounds, std::numeric_limits<int>::max()));
  finetune.tuner.activation_order = settings.activation_order;
  finetune.tuner.refresh_scales = settings.refresh_scales;
  finetune.gather.hold_back_every = static_cast<size_t>(settings.hold_back_every);
  finetune.gather.num_positions = settings.num_positions;
  finetune.gather.seed = static_cast<uint64_t>(settings.seed);
  finetune.gather.num_kept = settings.num_kept;
  finetune.gather.memory_limit = static_cast<uint64_t>(settings.memory_mb) * 1'000'000;
  finetune.gather.is_spilled = settings.spills;
  finetune.num_groups = static_cast<size_t>(settings.num_groups);
  finetune.op_types = settings.op_types;
  finetune.adds_biases = settings.adds_biases;
  finetune.journal = JournalOf(options.output);
  finetune.gather.num_threads = options.num_threads;
  finetune.gather.progress = options.progress;
  auto most = static_cast<size_t>(settings.num_samples);
  if (most == 0) most = options.samples.limit;
  if (most == 0) most = size_t{plan::kDefaultFinetuneSamples};
  return finetune::Finetune(model, std::move(resolved), *OpenSamples(model, options.First(most)),
                            finetune, pool);
}

// The float model, with the data that its plan depends on.
struct Prepared {
  graph::Model model;
  // The statistics from before the model was smoothed, which changes its values.
  std::optional<calibrate::CalibrationTable> table;
};

Prepared PrepareModel(const QuantizeOptions& options, const plan::QuantConfig& config,
                      const plan::Rewrites& rewrites, graph::PassRunner& passes,
                      QuantizeReport& report) {
  Prepared prepared{rewrite::Prepare(options.model,
                                     {.preparation = options.preparation,
                                      .rewrites = rewrites,
                                      .disabled_passes = options.disabled_passes},
                                     &report.rewritten),
                    std::nullopt};
  if (!config.smooth) return prepared;
  const auto smooth = [&](graph::Model& model) {
    if (!options.calibration.empty()) {
      prepared.table = LoadTable(model, rewrites, options.calibration);
    }
    SmoothTaskOptions settings;
    static_cast<RunOptions&>(settings) = options;
    settings.alpha = config.smooth->alpha;
    settings.model_name = options.model.filename().string();
    settings.calibration = options.calibration;
    // A plan names the values of the model as it is.
    settings.may_insert = options.plan_file.empty();
    report.smoothed = SmoothModel(model, settings, prepared.table);
    return !report.smoothed->smoothed.empty();
  };
  WithContext(fmt::format("'{}'", options.model.string()),
              [&] { passes.Run(prepared.model, {.name = "smooth", .run = smooth}); });
  return prepared;
}

// Gives the plan its scales and learned weights. `prepared.model` becomes the fine-tuned model.
plan::ResolvedPlan Resolve(plan::QuantPlan plan, Prepared& prepared, const QuantizeOptions& options,
                           graph::PassRunner& passes, ThreadPool& pool, QuantizeReport& report) {
  const calibrate::CalibrationTable table =
      prepared.table ? std::move(*prepared.table)
                     : TableFor(prepared.model, plan, options, report.held_back);
  // The guard has nothing to do where no scale is chosen from statistics.
  const bool is_guarded = plan.config.guard_db && !calibrate::ValuesToCalibrate(plan).empty();
  std::unique_ptr<data::Source> samples;
  if (is_guarded && options.samples.is_given()) {
    samples = OpenSamples(prepared.model, options.First(calibrate::kMostGuardCandidates));
  }
  const calibrate::GuardOptions guard{samples.get(), options.num_threads, options.progress};
  plan::ResolvedPlan resolved = calibrate::ResolvePlan(std::move(plan), prepared.model, table, pool,
                                                       samples ? &guard : nullptr);
  if (is_guarded && !samples) {
    resolved.guard.emplace().note =
        fmt::format("it needs samples besides the statistics: give {} too", OptionName("data"));
  }
  if (resolved.plan.config.finetune.empty()) return resolved;
  const auto finetune = [&](graph::Model& model) {
    finetune::Finetuned learned = Finetune(model, std::move(resolved), options, pool);
    report.finetune = std::move(learned.report);
    resolved = std::move(learned.resolved);
    return true;
  };
  const auto fits = [&](const graph::Model& checked) {
    plan::CheckFits(resolved.plan, checked);  // or it throws
    return true;
  };
  passes.Run(prepared.model,
             {.name = "finetune", .run = finetune, .requires_before = fits, .ensures_after = fits});
  return resolved;
}

// Applies the plan to the model and writes it. With a guard, activations become float until the
// file is no larger than the float one.
void Write(graph::Model& model, plan::ResolvedPlan& resolved, const emit::ApplyOptions& apply,
           const QuantizeOptions& options, ThreadPool& pool, QuantizeReport& report) {
  // Only small networks get larger by quantizers, so that a copy takes little memory. In tiny ones
  // nobody minds that.
  constexpr uint64_t kMostGrowingBytes = 32'000'000;
  constexpr uint64_t kLeastBytes = 100'000;
  const uint64_t room = std::max(report.input_bytes, kLeastBytes);
  const bool may_shrink = resolved.plan.config.guard_db && !resolved.scales.empty() &&
                          plan::ResolvePlacement(resolved.plan.config) == plan::Placement::kQdq &&
                          apply.storage == emit::Storage::kPacked &&
                          report.input_bytes <= kMostGrowingBytes;
  std::optional<graph::Model> original;
  if (may_shrink) original = model.Clone();
  for (;;) {
    report.transform = emit::ApplyPlan(model, resolved, apply, pool, options.progress);
    report.output_parts = graph::MeasureParts(model);
    // Every runtime infers the descriptions of inner values. A file does not grow by them.
    if (report.output_parts.all > room) model.DropDescriptions();
    const auto accepts = [&](uint64_t num_bytes) {
      return !original || num_bytes <= room ||
             calibrate::ShrinkFile(resolved, *original, num_bytes - room) == 0;
    };
    WrittenModel written = WriteModel(std::move(model), {.output = options.output,
                                                         .given = options.model,
                                                         .external_data = options.external_data,
                                                         .is_checked = options.is_checked,
                                                         .samples = options.samples,
                                                         .accepts = accepts,
                                                         .progress = options.progress});
    if (written.is_accepted) {
      report.output_bytes = written.num_bytes;
      report.target = std::move(written.target);
      report.why_not_checked = std::move(written.why_not_checked);
      return;
    }
    model = original->Clone();
  }
}

}  // namespace

QuantizeReport Quantize(const QuantizeOptions& options) {
  QuantizeReport report;
  CheckPasses(options.disabled_passes);
  const bool has_plan = !options.plan_file.empty();
  if (has_plan) report.plan = ReadPlan(options.plan_file);
  if (has_plan && options.change_plan) options.change_plan(report.plan.config);
  { const AtomicFile probe(options.output); }  // before any work
  if (!options.cache_scales_output.empty()) CheckWritable(options.cache_scales_output);
  {
    const graph::Model given = graph::Model::Load(options.model);
    // Preparing folds operators that decode constants.
    report.already_quantized = ops::QuantizedOperators(given);
    report.input_parts = graph::MeasureParts(given);
  }
  graph::PassRunner passes(options.disabled_passes);
  Prepared prepared = PrepareModel(
      options, has_plan ? report.plan.config : options.config,
      has_plan ? report.plan.rewrites : plan::ResolveRewrites(options.config), passes, report);
  report.input_bytes = graph::StoredBytes(options.model);
  report.prepared_parts = graph::MeasureParts(prepared.model);
  if (has_plan) {
    WithContext(fmt::format("plan '{}'", options.plan_file.string()),
                [&] { plan::CheckFits(report.plan, prepared.model); });
  } else {
    report.plan = plan::MakePlan(options.config, prepared.model, options.model.filename().string());
  }
  if (!options.cache_scales_output.empty()) CheckHasCacheScales(report.plan);
  if (!options.cache_scales.empty()) {
    ReadCacheScales(options.cache_scales, report.plan);
    plan::CheckFits(report.plan, prepared.model);
  }
  if (prepared.table && report.smoothed) UseExtremes(report.plan, *report.smoothed);
  ThreadPool pool(options.num_threads);
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    plan::ResolvedPlan resolved =
        Resolve(std::move(report.plan), prepared, options, passes, pool, report);
    emit::ApplyOptions apply = options.apply;
    apply.disabled_passes = options.disabled_passes;
    Write(prepared.model, resolved, apply, options, pool, report);
    if (!options.cache_scales_output.empty()) {
      WriteCacheScales(options.cache_scales_output, resolved.plan);
    }
    report.plan = std::move(resolved.plan);
    report.left_float = std::move(resolved.left_float);
    report.unsigned_weights = std::move(resolved.unsigned_weights);
    report.guard = std::move(resolved.guard);
    if (!report.plan.config.finetune.empty()) {
      std::error_code ignored;
      std::filesystem::remove(JournalOf(options.output), ignored);
    }
  });
  return report;
}

}  // namespace bitpress::tasks
