#include "tasks/quantize.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "calibrate/shrink_file.h"
#include "data/kept_samples.h"
#include "graph/staged_model.h"
#include "ops/multiply_adds.h"
#include "plan/target_profile.h"
#include "tasks/cache_scales.h"
#include "tasks/changing_pass.h"
#include "tasks/compared_runs.h"
#include "tasks/passes.h"
#include "tasks/resolve.h"
#include "tasks/write_model.h"

namespace bitpress::tasks {
namespace {

std::filesystem::path JournalOf(std::filesystem::path output) { return output += ".journal"; }

// Changes the weights of the model and what the plan says of them.
void Finetune(ResolvedModel& quantized, const QuantizeOptions& options, ThreadPool& pool,
              QuantizeReport& report) {
  plan::ResolvedPlan& resolved = quantized.resolved;
  const plan::QuantConfig& config = resolved.plan.config;
  if (config.finetune.empty() || options.disabled_passes.contains(kFinetunePass)) return;
  if (config.finetune_settings.is_optional && !options.samples.is_given()) {
    report.why_not_finetuned = fmt::format("there are no samples to learn from (finetune={})",
                                           plan::FinetunePassNames(config.finetune));
    return;
  }
  const auto finetune = [&](graph::Model& model) {
    finetune::FinetuneOptions settings = FinetuneOptionsFor(config, options);
    settings.journal = JournalOf(options.output);
    const auto source = OpenSamples(model, FinetuneSamples(config, options));
    finetune::Finetuned learned =
        finetune::Finetune(model, std::move(resolved), *source, settings, pool);
    report.finetune = std::move(learned.report);
    resolved = std::move(learned.resolved);
    return true;
  };
  const auto fits = [&](const graph::Model& checked) {
    plan::CheckFits(resolved.plan, checked);  // or it throws
    return true;
  };
  graph::RunPass(quantized.model, kFinetunePass, finetune, fits, fits);
}

// Applies the plan to the model and writes it. With a guard, activations become float until the
// file is no larger than the float one. Its size is known before a weight is computed.
void Write(graph::Model& model, plan::ResolvedPlan& resolved, const emit::ApplyOptions& apply,
           const QuantizeOptions& options, ThreadPool& pool, QuantizeReport& report) {
  // Only small networks get larger by quantizers, so that a copy takes little memory. In tiny ones
  // nobody minds that.
  constexpr uint64_t kMostGrowingBytes = 32'000'000;
  constexpr uint64_t kLeastBytes = 100'000;
  // Weights that the given model decodes are floats once it was prepared, so that the file of
  // floats is larger than the given one.
  const uint64_t decoded = report.prepared_parts.constants -
                           std::min(report.prepared_parts.constants, report.input_parts.constants);
  const uint64_t room = std::max(report.input_bytes + decoded, kLeastBytes);
  const bool may_shrink = resolved.plan.config.guard && !resolved.scales.empty() &&
                          plan::ResolvePlacement(resolved.plan.config) == plan::Placement::kQdq &&
                          apply.storage == emit::Storage::kPacked &&
                          report.input_bytes <= kMostGrowingBytes;
  const double num_products = ops::CountProducts(model);
  std::optional<graph::Model> original;
  if (may_shrink) original = model.Clone();
  const auto external_data =
      options.has_external_data ? graph::ExternalData::kAlways : graph::ExternalData::kIfNeeded;
  for (;;) {
    report.transform = emit::ApplyPlan(model, resolved, apply, pool, options.progress);
    report.output_parts = graph::MeasureParts(model);
    // Every runtime infers the descriptions of inner values. A file does not grow by them.
    if (report.output_parts.all > room) model.DropDescriptions();
    if (!original) break;
    const uint64_t num_bytes = graph::StagedModel::BytesOf(model, options.output, external_data);
    if (num_bytes <= room) break;
    if (calibrate::ShrinkFile(resolved, *original, num_bytes - room) == 0) break;
    model = original->Clone();
  }
  original.reset();
  WrittenModel written = WriteModel(std::move(model), {.output = options.output,
                                                       .given = options.model,
                                                       .external_data = external_data,
                                                       .is_checked = options.is_checked,
                                                       .samples = options.samples,
                                                       .num_products = num_products,
                                                       .wanted_db = WantedDb(resolved.plan),
                                                       .progress = options.progress});
  report.output_bytes = written.num_bytes;
  report.target = std::move(written.target);
  report.why_not_checked = std::move(written.why_not_checked);
}

QuantizeReport QuantizeOnce(const QuantizeOptions& options) {
  QuantizeReport report;
  report.output = options.output;
  CheckPasses(options.disabled_passes);
  { const AtomicFile probe(options.output); }  // before any work
  if (!options.cache_scales_output.empty()) CheckWritable(options.cache_scales_output);
  ThreadPool pool(options.num_threads);
  ResolvedModel quantized = ResolveModel(options, pool, report);
  WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    plan::ResolvedPlan& resolved = quantized.resolved;
    Finetune(quantized, options, pool, report);
    Write(quantized.model, resolved, FormOf(options), options, pool, report);
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
  report.takes_whole_items =
      !options.samples.whole_items && options.samples.found_whole->value_or(false);
  return report;
}

}  // namespace

emit::ApplyOptions FormOf(const QuantizeOptions& options) {
  emit::ApplyOptions form;
#define BITPRESS_FORM_OPTION(type, field, ...) form.field = options.field;
#include "bitpress/quantize_options.inc"
  form.disabled_passes = options.disabled_passes;
  if (form.storage == emit::ApplyOptions().storage) {
    form.storage = plan::ProfileOf(options.target).storage.value_or(form.storage);
  }
  return form;
}

QuantizeReport Quantize(const QuantizeOptions& given) {
  QuantizeOptions options = given;
  if (!options.samples.kept) options.samples.kept = std::make_shared<data::KeptSamples>();
  QuantizeReport report = QuantizeOnce(options);
  const bool is_far =
      report.target && report.target->closeness && report.target->closeness->is_far();
  if (!is_far) return report;
  std::optional<ChangingPass> changing = FindChangingPass(options, report.plan.rewrites);
  // A plan and a calibration name the values of the model as that pass made it.
  if (changing && !options.has_plan() && options.calibration.empty()) {
    QuantizeOptions without = options;
    without.disabled_passes.insert(changing->pass);
    report = QuantizeOnce(without);
    changing->is_undone = true;
  }
  report.changing_pass = std::move(changing);
  return report;
}

}  // namespace bitpress::tasks
