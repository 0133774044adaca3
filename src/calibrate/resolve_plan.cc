#include "calibrate/resolve_plan.h"

#include "calibrate/resolve_params.h"

namespace bitpress::calibrate {

Resolved ResolvePlan(plan::QuantPlan& plan, const graph::Model& model,
                     const CalibrationTable& table, ThreadPool& pool) {
  ResolvedParams activations = ResolveParams(plan, table);
  Resolved resolved;
  resolved.params = std::move(activations.params);
  resolved.left_float = std::move(activations.left_float);
  for (auto& left : ResolveFloatScales(plan, table)) {
    resolved.left_float.push_back(std::move(left));
  }
  resolved.channels = ResolveChannels(plan, model, table, resolved.params);
  resolved.unsigned_weights =
      weights::ChooseUnsignedWeights(plan, model, resolved.params, resolved.channels, pool);
  for (const weights::UnsignedWeight& weight : resolved.unsigned_weights) {
    resolved.weight_params[weight.value] = weight.params;
  }
  return resolved;
}

}  // namespace bitpress::calibrate
