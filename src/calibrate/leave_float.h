// Takes activations out of the integers of a resolved plan, with everything that follows from it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "graph/model.h"
#include "plan/qdq_placement.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// The integer activations of a plan with placement qdq: those that some operator on integers needs.
// They are what LeaveFloat and its callers work on.
std::set<std::string> IntegerValues(const plan::ResolvedPlan& resolved);

// Makes a row a float row.
void MakeFloatRow(plan::TensorPlan& row, std::string reason);

// Makes values float: their rows become float rows with the reason, in front of which `who` stands.
// Values that no operator on integers needs any more follow them, though not those that none needed
// before. Readers that compute in float then read floats where there are some. Biases of products
// of floats become float, and weights of such products need not be pair-safe. Adds all values to
// resolved.left_float. Returns their number. REQUIRES: placement qdq.
size_t LeaveFloat(plan::ResolvedPlan& resolved, const graph::Model& model,
                  const std::map<std::string, std::string>& reasons, std::string_view who);

// Returns the values that LeaveFloat would take along, besides `left`.
std::set<std::string> IdleValues(const graph::Model& model, const std::set<std::string>& integers,
                                 const std::set<std::string>& left);

}  // namespace bitpress::calibrate
