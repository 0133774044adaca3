#include "calibrate/weight_ranges.h"

#include <algorithm>
#include <utility>

#include "calibrate/guard.h"
#include "calibrate/noise_probe.h"
#include "calibrate/planned_weights.h"
#include "ops/multiply_adds.h"

namespace bitpress::calibrate {
namespace {

using Kind = plan::RangeMethod::Kind;

constexpr Kind kTriedKinds[] = {Kind::kAuto, Kind::kMinMax, Kind::kMse};
// The products of about two seconds, in which all methods and the float model run.
constexpr double kProductsOfChoice = 5e10;
constexpr double kLeastSamplesOfChoice = 3;
constexpr double kMostSamplesOfChoice = 8;

bool IsOpen(const plan::TensorPlan& row) {
  return row.role == plan::Role::kWeight && row.integer && !row.integer->params &&
         row.integer->range.kind == Kind::kAuto &&
         row.integer->granularity == plan::Granularity::kPerBlock;
}

void SetKind(plan::ResolvedPlan& resolved, Kind kind) {
  for (plan::TensorPlan& row : resolved.plan.tensors) {
    if (IsOpen(row)) row.integer->range.kind = kind;
  }
}

double WorstDb(const OutputNoise& noise) {
  return ToDb(noise.empty() ? 0 : *std::ranges::max_element(noise));
}

// Returns how many samples may be measured with all methods.
size_t SamplesOfChoice(const graph::Model& model, const data::Batch& first) {
  std::vector<double> num_elements;
  for (const Tensor& input : first.inputs) {
    num_elements.push_back(static_cast<double>(input.num_elements()) /
                           static_cast<double>(first.num_samples));
  }
  const double of_run = ops::CountProducts(model) * ops::UnknownDimensions(model, num_elements);
  const double count = kProductsOfChoice / (std::max(1.0, of_run) * (1 + std::size(kTriedKinds)));
  return count < kLeastSamplesOfChoice ? 0
                                       : static_cast<size_t>(std::min(count, kMostSamplesOfChoice));
}

}  // namespace

bool HasWeightRangeToChoose(const plan::ResolvedPlan& resolved) {
  return resolved.plan.config.finetune.empty() &&
         std::ranges::any_of(resolved.plan.tensors, IsOpen);
}

std::optional<WeightRangeReport> ChooseWeightRange(plan::ResolvedPlan& resolved,
                                                   const graph::Model& model, ThreadPool& pool,
                                                   const WeightRangeOptions& options) {
  const std::optional<data::Batch> first = options.source->Next(1);
  if (!first || first->num_samples == 0) return std::nullopt;
  const size_t wanted = SamplesOfChoice(model, *first);
  if (wanted == 0) return std::nullopt;
  NoiseProbe probe(model, resolved, {}, options.num_threads);
  AddSpreadSamples(probe, *options.source, wanted);
  std::vector<size_t> samples(probe.num_samples());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = i;
  probe.Measure({}, samples);  // what float gives
  WeightRangeReport report{.num_samples = samples.size(), .method = "", .tried = {}};
  Kind best = Kind::kAuto;
  double best_db = 0;
  for (const Kind kind : kTriedKinds) {
    if (options.progress) {
      options.progress("weight ranges", report.tried.size(), std::size(kTriedKinds));
    }
    plan::ResolvedPlan tried = resolved;
    SetKind(tried, kind);
    probe.UseWeights(WithPlannedWeights(model, tried, pool), tried, {});
    const double db = WorstDb(NoiseOf(probe.Measure({}, samples).in_all));
    report.tried.push_back({plan::RangeMethodName({.kind = kind}), db});
    const bool is_first = report.tried.size() == 1;
    if (!is_first && db < std::max(best_db, report.tried.front().sqnr_db + kLeastRangeGainDb)) {
      continue;
    }
    best = kind;
    best_db = db;
  }
  SetKind(resolved, best);
  report.method = plan::RangeMethodName({.kind = best});
  return report;
}

}  // namespace bitpress::calibrate
