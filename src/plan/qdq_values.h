// The rows of the activations that placement qdq quantizes (qdq_placement.h). MakePlan adds them to
// a plan. Pure.
#pragma once

#include <vector>

#include "graph/model.h"
#include "plan/node_rules.h"
#include "plan/plan_rows.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Returns whether a node reads and gives the codes of this placement. It does not if it is
// excluded, if its activations stay float, or if they have another kind of format than the
// configuration's integers.
bool JoinsQdq(const NodeRules& rules, const graph::Node& node, std::string_view value = "");

// Returns a row for each value of PlaceQdq, in graph order, with its uses. A rule may ask for
// another treatment than the configuration's at a node that reads or gives the value, or a value
// that shares its scale. The first such node decides.
std::vector<TensorPlan> QdqRows(const graph::Model& model, const NodeRules& rules,
                                const RowMaker& rows, const NodeIndex& index);

}  // namespace bitpress::plan
