// The rows of the key-value caches of a model (ops/kv_caches.h). MakePlan adds them to a plan.
// Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "plan/cache_plan.h"
#include "plan/node_rules.h"
#include "plan/plan_rows.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

struct PlannedCaches {
  // Caches of integers, and those that stay float though the configuration has a format for them.
  std::vector<CachePlan> caches;
  // Rows of the new positions that are quantized where they enter a cache of floats, by the key of
  // the node and its input.
  std::map<std::pair<std::string, size_t>, TensorPlan> appended;
};

// Throws Error(kInvalidArgument) if the configuration has a format for caches and the model has
// none.
PlannedCaches PlanCaches(const QuantConfig& config, const graph::Model& model,
                         const NodeRules& rules, const RowMaker& rows, const NodeIndex& nodes);

// Throws Error(kInvalidArgument) naming the first cache that does not fit the model: it is not
// there, its node takes no integers, or keys and values of a node are not alike.
void CheckCachesFit(const QuantPlan& plan, const NodeIndex& nodes, const graph::Model& model);

}  // namespace bitpress::plan
