// The conditions about power-of-two scales: by how many bits hardware shifts what a node computes,
// and whose scale changes that. For the table of target_conditions.h. Pure.
#pragma once

#include <vector>

#include "formats/qparams.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/target_conditions.h"

namespace bitpress::plan {

// Returns the scales of a row that are known.
std::vector<formats::QParams> ParamsOf(const TensorPlan& row);
bool IsPowerOfTwo(float scale);

// Return the number of bits of a condition. It is not known unless all scales are known powers of
// two.
Found ShiftOf(const graph::Node& node, const PlannedModel& planned);
Found BiasShiftOf(const graph::Node& node, const PlannedModel& planned);
Found BiasToOutputOf(const graph::Node& node, const PlannedModel& planned);
Found InputSpreadOf(const graph::Node& node, const PlannedModel& planned);
Found SumShiftOf(const graph::Node& node, const PlannedModel& planned);
Found InputFractionOf(const graph::Node& node, const PlannedModel& planned);
Found OutputFractionOf(const graph::Node& node, const PlannedModel& planned);

// Return the tensor whose scale changes such a number, and whether a larger scale raises or lowers
// it.
Adjusted OutputRaises(const graph::Node& node, const PlannedModel& planned);
Adjusted OutputLowers(const graph::Node& node, const PlannedModel& planned);
Adjusted BiasRaises(const graph::Node& node, const PlannedModel& planned);
Adjusted BiasLowers(const graph::Node& node, const PlannedModel& planned);
Adjusted FirstInputLowers(const graph::Node& node, const PlannedModel& planned);
// The scale of a weight is changed, and that of the output where two activations are multiplied.
Adjusted ShiftedBy(const graph::Node& node, const PlannedModel& planned);
// The finest input gets a larger scale.
Adjusted FinestInputOf(const graph::Node& node, const PlannedModel& planned);

}  // namespace bitpress::plan
