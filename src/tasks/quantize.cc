// Calibration, and quantization with it, from start to end.
#include "tasks/quantize.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/messages.h"
#include "base/thread_pool.h"
#include "calibrate/calibration_file.h"
#include "calibrate/resolve_params.h"
#include "calibrate/resolve_plan.h"
#include "data/source.h"
#include "graph/stored_bytes.h"
#include "ops/compute_ops.h"
#include "plan/make_plan.h"
#include "rewrite/prepare.h"
#include "tasks/calibrate.h"
#include "tasks/check.h"
#include "tasks/passes.h"
#include "tasks/plan.h"
#include "tasks/samples.h"

namespace bitpress::tasks {
namespace {

// The statistics that a plan's integers need, from a file or from samples; empty if it needs none.
calibrate::CalibrationTable TableFor(const graph::Model& model, const plan::QuantPlan& plan,
                                     const QuantizeOptions& options) {
  const std::vector<std::string> values = calibrate::ValuesToCalibrate(plan);
  if (values.empty()) return {};
  if (!options.calibration.empty()) {
    return LoadTable(model, plan.equalization.has_value(), options.calibration);
  }
  if (!options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "configuration '{}' gives activations scales that follow from samples: give samples "
         "({}; for photos also {}), or a file of `bitpress calibrate` ({})",
         plan.config.name, OptionName("data"), OptionName("image"), OptionName("calibration"));
  }
  calibrate::CalibrateOptions calibration;
  calibration.axes = calibrate::ChannelsToCalibrate(plan, model);
  calibration.num_threads = options.num_threads;
  calibration.progress = options.progress;
  return calibrate::Calibrate(model, options.model.filename().string(), values,
                              *OpenSamples(model, options.samples, options.num_threads),
                              calibration)
      .table;
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
  return finetune::Finetune(model, std::move(resolved),
                            *OpenSamples(model, options.samples.First(most), options.num_threads),
                            finetune, pool);
}

rewrite::ChannelTable ChannelsOf(const calibrate::CalibrationTable& table) {
  rewrite::ChannelTable channels;
  for (const auto& [value, statistics] : table.tensors) {
    const bool is_finite = statistics.num_finite() == statistics.num_elements();
    const auto& slices = statistics.axis_statistics();
    if (!is_finite || statistics.is_empty() || !slices || slices->axis != -1) continue;
    for (const calibrate::SliceStatistics& slice : slices->slices) {
      channels[value].push_back(
          {slice.AbsMax(), slice.sum_of_squares.Mean(std::max<uint64_t>(1, slice.num_finite))});
    }
  }
  return channels;
}

// Statistics of each channel of the activations that can be smoothed. One pass over the samples.
calibrate::CalibrationTable GatherChannels(const graph::Model& model,
                                           const QuantizeOptions& options) {
  const std::vector<std::string> values = rewrite::ValuesToSmooth(model);
  if (values.empty()) return {};
  calibrate::CalibrateOptions calibration;
  for (const std::string& value : values) calibration.axes[value] = -1;
  calibration.num_threads = options.num_threads;
  calibration.progress = options.progress;
  return calibrate::Calibrate(model, options.model.filename().string(), values,
                              *OpenSamples(model, options.samples, options.num_threads),
                              calibration)
      .table;
}

// Smooths the model. `table`, of the model before, is that of the smoothed one then: of what was
// divided it has the extremes.
rewrite::SmoothReport SmoothModel(graph::Model& model, const plan::SmoothWish& wish,
                                  const QuantizeOptions& options,
                                  std::optional<calibrate::CalibrationTable>& table) {
  if (!table && !options.samples.is_given()) {
    Fail(ErrorCode::kInvalidArgument,
         "smooth_quant follows from the channels of activations: give samples ({}; for photos also "
         "{}), or a file of `bitpress calibrate --per-channel` ({})",
         OptionName("data"), OptionName("image"), OptionName("calibration"));
  }
  const rewrite::ChannelTable channels =
      ChannelsOf(table ? *table : GatherChannels(model, options));
  if (table && channels.empty() && !rewrite::ValuesToSmooth(model).empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "calibration '{}' knows no channels, which smooth_quant follows from; gather it anew",
         options.calibration.string());
  }
  // A plan names the values of the model as it is.
  const bool may_insert = options.plan_file.empty();
  rewrite::SmoothReport report =
      rewrite::Smooth(model, channels, {.alpha = wish.alpha, .may_insert = may_insert});
  if (!table) return report;
  for (const rewrite::SmoothedActivation& smoothed : report.smoothed) {
    table->tensors[smoothed.result] =
        calibrate::Divided(table->tensors.at(smoothed.value), smoothed.factors);
    for (const std::string& value : smoothed.passed) table->tensors.erase(value);
  }
  return report;
}

// Of what was divided only the extremes are known.
void UseExtremes(plan::QuantPlan& plan, const rewrite::SmoothReport& report) {
  std::set<std::string> divided;
  for (const rewrite::SmoothedActivation& smoothed : report.smoothed) {
    divided.insert(smoothed.result);
  }
  std::set<std::string> roots;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.integer || !divided.contains(row.value)) continue;
    roots.insert(row.integer->shares.empty() ? row.value : row.integer->shares);
  }
  for (plan::TensorPlan& row : plan.tensors) {
    if (row.role != plan::Role::kActivation || row.is_dynamic()) continue;
    if (row.integer && roots.contains(row.value)) row.integer->range = {};
    if (row.scaled && divided.contains(row.value)) row.scaled->range = {};
  }
}

// Checks the model that was written, which is right whatever cannot be read or written here:
// samples that nothing else needed, or the check's temporary files. Nothing is returned without the
// latter.
std::optional<deploy::TargetReport> CheckWritten(const QuantizeOptions& options) {
  try {
    return CheckTarget({.model = options.output, .samples = options.samples});
  } catch (const Error&) {
    CheckOptions without_samples;
    without_samples.model = options.output;
    try {
      return CheckTarget(without_samples);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIo) throw;
      return std::nullopt;
    }
  }
}

}  // namespace

QuantizeReport Quantize(const QuantizeOptions& options) {
  QuantizeReport report;
  CheckPasses(options.disabled_passes);
  const auto is_on = [&](std::string_view pass) { return !options.disabled_passes.contains(pass); };
  const bool has_plan = !options.plan_file.empty();
  if (has_plan) report.plan = ReadPlan(options.plan_file);
  { const AtomicFile probe(options.output); }  // before any work
  const std::optional<plan::EqualizeOptions> equalization =
      has_plan ? report.plan.equalization : plan::ResolveEqualization(options.config);
  if (equalization) report.equalized.emplace();
  graph::Model model = rewrite::Prepare(options.model,
                                        {.preparation = options.preparation,
                                         .equalization = equalization,
                                         .disabled_passes = options.disabled_passes},
                                        equalization ? &*report.equalized : nullptr);
  report.input_bytes = graph::StoredBytes(options.model);
  // Loaded before the model changes, if it does.
  std::optional<calibrate::CalibrationTable> smoothed_table;
  const auto& wish = (has_plan ? report.plan.config : options.config).smooth;
  if (wish && is_on("smooth")) {
    WithContext(fmt::format("'{}'", options.model.string()), [&] {
      if (!options.calibration.empty()) {
        smoothed_table = LoadTable(model, equalization.has_value(), options.calibration);
      }
      report.smoothed = SmoothModel(model, *wish, options, smoothed_table);
    });
  }
  if (has_plan) {
    WithContext(fmt::format("plan '{}'", options.plan_file.string()),
                [&] { plan::CheckFits(report.plan, model); });
  } else {
    report.plan = plan::MakePlan(options.config, model, options.model.filename().string());
  }
  if (smoothed_table) UseExtremes(report.plan, *report.smoothed);
  ThreadPool pool(options.num_threads);
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    const calibrate::CalibrationTable table =
        smoothed_table ? std::move(*smoothed_table) : TableFor(model, report.plan, options);
    plan::ResolvedPlan resolved =
        calibrate::ResolvePlan(std::move(report.plan), model, table, pool);
    if (!resolved.plan.config.finetune.empty() && is_on("finetune")) {
      finetune::Finetuned learned = Finetune(model, std::move(resolved), options, pool);
      resolved = std::move(learned.resolved);
      report.finetune = std::move(learned.report);
    }
    emit::ApplyOptions apply = options.apply;
    apply.disabled_passes.insert(options.disabled_passes.begin(), options.disabled_passes.end());
    report.transform = emit::ApplyPlan(model, resolved, apply, pool, options.progress);
    report.plan = std::move(resolved.plan);
    report.left_float = std::move(resolved.left_float);
    report.unsigned_weights = std::move(resolved.unsigned_weights);
    model.Check();
    report.output_bytes = model.Save(options.output, options.is_external);
    if (!report.plan.config.finetune.empty()) {
      std::error_code ignored;
      std::filesystem::remove(JournalOf(options.output), ignored);
    }
  });
  if (options.is_checked.value_or(report.output_bytes <= kMostCheckedBytes)) {
    report.target = CheckWritten(options);
  }
  return report;
}

}  // namespace bitpress::tasks
