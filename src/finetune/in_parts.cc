#include "finetune/in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "finetune/gather.h"
#include "finetune/journal_key.h"
#include "finetune/network_parts.h"
#include "finetune/observed_network.h"

namespace bitpress::finetune {
namespace {

using graph::Model;

void CheckCanBeDivided(const FinetuneOptions& options) {
  if (std::ranges::count(options.passes, plan::FinetunePass::kAwq) > 0) {
    Fail(ErrorCode::kUnsupported,
         "awq changes the model before layers are observed, so that its work cannot be divided: "
         "leave awq out, or quantize in one process");
  }
  if (std::ranges::count(options.passes, plan::FinetunePass::kBlocks) > 0) {
    Fail(ErrorCode::kUnsupported,
         "blocks learn one after another in a network whose earlier blocks have learned, so that "
         "the work cannot be divided: leave blocks out, or quantize in one process");
  }
}

// Returns the entry of layers[i] of a pass, with the layers that share its sums.
MomentsEntry EntryFor(std::span<const LinearLayer> pass, size_t i, const GatherOptions& options) {
  const LinearLayer& layer = pass[i];
  MomentsEntry entry;
  for (size_t k = i; k < pass.size(); ++k) {
    if (FirstWithMomentsOf(pass, k) == i) entry.layers.push_back(pass[k].weight);
  }
  entry.op_type = layer.op_type;
  entry.shape = ShapeOf(layer);
  entry.has_held_back = options.hold_back_every > 0;
  return entry;
}

// Reads the sums of layers one after another. Neighbours that share them read them once.
class SumsReader {
 public:
  SumsReader(MomentsReader& file, ThreadPool& pool) : file_(file), pool_(pool) {}

  LayerSums& Read(const LinearLayer& layer) {
    const size_t entry = file_.EntryOf(layer.weight);
    if (sums_ && entry == entry_) return *sums_;
    if (file_.entries()[entry].shape != ShapeOf(layer)) {
      Fail(ErrorCode::kInvalidArgument,
           "the moments of '{}' have other sizes than the layer of this configuration",
           layer.weight);
    }
    sums_.reset();  // as much memory less
    sums_.emplace(file_.Empty(entry));
    file_.Add(entry, file_.Read(entry), *sums_, pool_);
    entry_ = entry;
    return *sums_;
  }
  bool AreShared() const { return file_.entries()[entry_].layers.size() > 1; }

 private:
  MomentsReader& file_;
  ThreadPool& pool_;
  size_t entry_ = 0;
  std::optional<LayerSums> sums_;
};

void CheckFits(const MomentsReader& file, const Model& model, const std::string& key,
               const std::filesystem::path& path) {
  const MomentsOrigin& origin = file.origin();
  if (origin.model_fingerprint != model.Fingerprint() || origin.key != key) {
    Fail(ErrorCode::kInvalidArgument,
         "the moments '{}' were gathered from another model ('{}') or with another configuration "
         "or version ({}; this is {}): gather them with the same arguments",
         PathText(path), origin.model_name, origin.key, key);
  }
  if (!origin.IsWhole()) {
    Fail(ErrorCode::kInvalidArgument,
         "the moments '{}' have {} of {} samples: merge the files of all parts first",
         PathText(path), origin.num_runs(),
         origin.num_runs_of_all > 0 ? std::to_string(origin.num_runs_of_all) : "more");
  }
}

}  // namespace

GatheredReport GatherToFile(const Model& model, const plan::ResolvedPlan& resolved,
                            data::Source& source, const FinetuneOptions& options,
                            const std::string& model_name, const std::filesystem::path& path,
                            ThreadPool& pool) {
  CheckCanBeDivided(options);
  MomentsWriter writer(path);
  GatheredReport report;
  report.origin.model_name = model_name;
  report.origin.model_fingerprint = model.Fingerprint();
  report.origin.key = MomentsKey(resolved, options);
  report.origin.samples = source.Fingerprint();
  const Layers layers = TunableLayers(model, resolved, options);
  if (layers.found.empty()) {
    Fail(ErrorCode::kInvalidArgument, "configuration '{}' has no weight that can be tuned",
         resolved.plan.config.name);
  }
  const Model float_model = WithFloatWeights(model.Clone(), resolved, false, pool);
  const Model quantized = WithFloatWeights(model.Clone(), resolved, true, pool);
  ObservedNetwork network(float_model, quantized, layers.found, source, options.gather);
  const std::vector<std::vector<LinearLayer>> parts = network.Parts();
  const std::vector<std::span<const LinearLayer>> passes = PassesOf(parts, options.gather);
  for (size_t i = 0; i < passes.size(); ++i) {
    GatherOptions gather = options.gather;
    if (passes.size() > 1) gather.stage += fmt::format(", pass {} of {}", i + 1, passes.size());
    std::vector<std::shared_ptr<LayerSums>> sums = GatherMoments(network, passes[i], gather);
    const auto [first, num, all] = sums.front()->runs;
    report.origin.num_runs_of_all = all;
    report.origin.split = sums.front()->split;
    report.origin.runs = {{first, first + num}};
    report.num_layers += sums.size();
    for (size_t k = 0; k < sums.size(); ++k) {
      if (FirstWithMomentsOf(passes[i], k) != k) continue;
      writer.Add(EntryFor(passes[i], k, gather), *sums[k]);
      *sums[k] = {};  // as much memory less
    }
  }
  report.num_bytes = writer.Commit(report.origin);
  return report;
}

FinetuneReport LearnFromFile(const Model& model, const plan::ResolvedPlan& resolved,
                             const std::filesystem::path& moments, const data::Shard& layers,
                             const FinetuneOptions& options, ThreadPool& pool) {
  CheckCanBeDivided(options);
  MomentsReader file(moments);
  CheckFits(file, model, MomentsKey(resolved, options), moments);
  FinetuneReport report;
  report.num_samples = file.origin().num_runs();
  Layers tunable = TunableLayers(model, resolved, options);
  report.left_out = std::move(tunable.left_out);
  LearningJournal journal(options.journal,
                          JournalKey(model, resolved, options, file.origin().samples));
  const weights::PairRules pair_rules(resolved.plan, model, resolved.channels);
  SumsReader sums(file, pool);
  const auto [begin, end] = layers.RangeIn(tunable.found.size());
  for (size_t i = begin; i < end; ++i) {
    const LinearLayer& layer = tunable.found[i];
    std::optional<LearnedLayer> learned = journal.Find(layer.weight);
    if (learned && Fits(model, layer, *learned)) {
      ++report.num_resumed;
    } else {
      LayerSums& of_layer = sums.Read(layer);
      learned = LearnFrom(model, layer, of_layer, sums.AreShared(), resolved.plan.operators,
                          pair_rules, options, pool);
      journal.Add(*learned);
    }
    report.layers.push_back(std::move(learned->report));
    if (options.gather.progress) {
      options.gather.progress(StageOf(report.layers.back()), i + 1 - begin, end - begin);
    }
  }
  return report;
}

}  // namespace bitpress::finetune
