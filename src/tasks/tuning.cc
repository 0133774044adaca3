#include "tasks/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "finetune/journal.h"
#include "tasks/passes.h"
#include "tasks/resolve.h"

namespace bitpress::tasks {
namespace {

// Resolves the model, and calls `work` with it and the options of its fine-tuning.
template <typename Work>
auto WithResolved(const QuantizeOptions& options, ThreadPool& pool, const Work& work) {
  CheckPasses(options.disabled_passes);
  QuantizeReport report;
  const ResolvedModel quantized = ResolveModel(options, pool, report);
  const plan::QuantConfig& config = quantized.resolved.plan.config;
  return WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    if (config.finetune.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           "configuration '{}' learns nothing: give {} too, such as gptq", config.name,
           OptionName("finetune"));
    }
    return work(quantized, FinetuneOptionsFor(config, options));
  });
}

// Throws if scales followed from one part of the samples, where other parts have others.
void CheckScalesAreOfAll(const QuantizeOptions& options, const plan::ResolvedPlan& resolved) {
  const plan::QuantConfig& config = resolved.plan.config;
  const bool are_of_samples = options.calibration.empty() && !resolved.scales.empty();
  if (!options.samples.part_of || !(are_of_samples || resolved.guard || config.smooth_quant))
    return;
  Fail(ErrorCode::kUnsupported,
       "configuration '{}' chooses scales from samples, and these are some of them: give all "
       "samples in files with {}, or {} and guard=off",
       config.name, OptionName("shard"), OptionName("calibration"));
}

}  // namespace

finetune::GatheredReport GatherMoments(const QuantizeOptions& options) {
  { const AtomicFile probe(options.output); }  // before any work
  ThreadPool pool(options.num_threads);
  return WithResolved(options, pool, [&](const ResolvedModel& quantized, const auto& settings) {
    CheckScalesAreOfAll(options, quantized.resolved);
    const auto source =
        OpenSamples(quantized.model, FinetuneSamples(quantized.resolved.plan.config, options));
    return finetune::GatherToFile(quantized.model, quantized.resolved, *source, settings,
                                  PathText(options.model.filename()), options.output, pool);
  });
}

TuneReport TuneLayers(const QuantizeOptions& options, const std::filesystem::path& moments,
                      const data::Shard& layers) {
  ThreadPool pool(options.num_threads);
  const finetune::FinetuneReport learned =
      WithResolved(options, pool, [&](const ResolvedModel& quantized, auto settings) {
        settings.journal = options.output;
        return finetune::LearnFromFile(quantized.model, quantized.resolved, moments, layers,
                                       settings, pool);
      });
  return {learned.layers.size(),
          static_cast<size_t>(
              std::ranges::count(learned.layers, true, &finetune::TunedLayerReport::is_tuned)),
          learned.num_resumed};
}

MomentsSummary ReadMoments(const std::filesystem::path& path) {
  const finetune::MomentsReader reader(path);
  return {reader.origin(), reader.entries(), std::filesystem::file_size(path)};
}

bool IsMoments(const std::filesystem::path& path) { return finetune::IsMomentsFile(path); }

MomentsSummary MergeMoments(std::span<const std::filesystem::path> paths,
                            const std::filesystem::path& output) {
  ThreadPool pool(0);
  finetune::MergeMoments(paths, output, pool);
  return ReadMoments(output);
}

nlohmann::ordered_json ToJson(const MomentsSummary& summary) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const auto& [begin, end] : summary.origin.runs) runs.push_back({begin, end});
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const finetune::MomentsEntry& entry : summary.entries) {
    layers.push_back({{"weights", entry.layers},
                      {"op_type", entry.op_type},
                      {"groups", entry.shape.groups},
                      {"outputs", entry.shape.rows},
                      {"inputs", entry.shape.columns}});
  }
  return {{"bitpress_moments", 1},
          {"model", summary.origin.model_name},
          {"model_fingerprint", fmt::format("{:016x}", summary.origin.model_fingerprint)},
          {"key", summary.origin.key},
          {"num_samples", summary.origin.num_runs()},
          {"num_samples_of_all", summary.origin.num_runs_of_all},
          {"samples", std::move(runs)},
          {"num_bytes", summary.num_bytes},
          {"layers", std::move(layers)}};
}

bool IsLearned(const std::filesystem::path& path) { return finetune::IsLearningJournal(path); }

size_t MergeLearned(std::span<const std::filesystem::path> paths,
                    const std::filesystem::path& output) {
  return finetune::MergeLearningJournals(paths, output);
}

}  // namespace bitpress::tasks
