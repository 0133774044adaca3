#include "calibrate/planned_weights.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weights/integer_weight.h"
#include "weights/weight_job.h"

namespace bitpress::calibrate {

graph::Model WithPlannedWeights(const graph::Model& original, const plan::ResolvedPlan& resolved,
                                ThreadPool& pool) {
  graph::Model model = original.Clone();
  const plan::NodeIndex index(model);
  for (const plan::TensorPlan& row : resolved.plan.tensors) {
    const bool is_planned = row.role == plan::Role::kWeight && row.is_quantized() &&
                            !row.uses.empty() && model.IsInitializer(row.value);
    if (!is_planned) continue;
    graph::HeldInitializer source = model.HoldInitializer(row.value);
    const std::string target = model.FreshName(row.value + "_planned");
    const graph::DeferredTensor declared{target, source.type, source.dims};
    const std::string reader = index.Find(row.uses.front()).Describe();
    const auto given = resolved.weight_scales.find(plan::ScaleKeyOf(row));
    const bool is_given = given != resolved.weight_scales.end();
    std::shared_ptr<const weights::IntegerWeight> integers;
    std::shared_ptr<const weights::WeightJob> job;
    if (row.integer) {
      integers = std::make_shared<const weights::IntegerWeight>(
          std::move(source), row, reader, std::vector<weights::Int32Bias>(),
          is_given ? given->second : std::vector<formats::QParams>());
    } else {
      job = std::make_shared<const weights::WeightJob>(
          std::move(source), row, resolved.plan.operators, reader,
          is_given ? std::optional(given->second.front().scale) : std::nullopt);
    }
    model.DeferInitializers({declared}, [integers, job, &pool] {
      weights::WeightStatistics ignored;
      std::vector<Tensor> tensors;
      tensors.push_back(integers ? integers->Simulate(pool, ignored)
                                 : job->Simulate(pool, ignored));
      return tensors;
    });
    for (const plan::TensorUse& use : row.uses) {
      index.Find(use).set_input(static_cast<size_t>(use.input), target);
    }
  }
  // What nothing reads any more is not written.
  for (const std::string& name : model.InitializerNames()) {
    if (!model.IsRead(name)) model.RemoveInitializer(name);
  }
  return model;
}

}  // namespace bitpress::calibrate
