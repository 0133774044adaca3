#include "calibrate/resolve_plan.h"

#include <utility>

#include "calibrate/mixed_concats.h"
#include "calibrate/resolve_caches.h"
#include "calibrate/resolve_params.h"
#include "weights/unsigned_weights.h"

namespace bitpress::calibrate {

plan::ResolvedPlan ResolvePlan(plan::QuantPlan plan, const graph::Model& model,
                               const CalibrationTable& table, ThreadPool& pool,
                               const GuardOptions* guard) {
  plan::ResolvedPlan resolved;
  resolved.plan = std::move(plan);
  ResolvedParams activations = ResolveParams(resolved.plan, table);
  resolved.scales = std::move(activations.scales);
  resolved.left_float = std::move(activations.left_float);
  for (auto& left : ResolveFloatScales(resolved.plan, table)) {
    resolved.left_float.push_back(std::move(left));
  }
  ResolveCaches(resolved.plan, table);
  LeaveMixedConcats(resolved, model, table);
  if (guard != nullptr) GuardActivations(resolved, model, table, pool, *guard);
  resolved.channels = ResolveChannels(resolved.plan, model, table, resolved.scales);
  weights::ChooseUnsignedWeights(resolved, model, pool);
  return resolved;
}

}  // namespace bitpress::calibrate
