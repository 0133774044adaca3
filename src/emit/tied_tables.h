// Finds tables that a model stores twice: a lookup reads a table, and the head multiplies with the
// same numbers transposed. If the plan gives both one treatment, one packed table serves both.
// All functions are pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::emit {

// Returns the rows of the heads' matrices [columns, rows], each with the row of the table [rows,
// columns] that it is the transpose of. Blocks, or scales, run along the same elements in both, so
// that the codes are the same. A head that has learned other weights is none.
std::map<const plan::TensorPlan*, const plan::TensorPlan*> FindTiedTables(
    const graph::Model& model, const plan::ResolvedPlan& resolved);

// Returns the products that read the transpose of a value, if `use` is a Transpose of two
// dimensions whose output only such products read, as their right matrix. Otherwise nothing.
std::vector<graph::Node> ProductsBehindTranspose(const graph::Model& model, const graph::Use& use);

}  // namespace bitpress::emit
