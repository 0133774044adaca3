// The activations that qdq placement quantizes, as rows of a plan. Pure.
#pragma once

#include <vector>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/plan_rows.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Whether a node reads and gives the codes of this placement: not where it is excluded, where its
// activations stay float, or have another kind of format than the configuration's integers.
bool JoinsQdq(const NodeRules& rules, const graph::Node& node, std::string_view value = "");

// A row for each value of PlaceQdq, in graph order, its uses filled in. What a value gets is
// decided by the first of those that read or give it, or one that shares its scale, for which a
// rule asks something else than the configuration.
std::vector<TensorPlan> QdqRows(const graph::Model& model, const NodeRules& rules,
                                const RowMaker& rows, const NodeIndex& index);

}  // namespace bitpress::plan
