// The loss of a model's task as the guard measures it: by the same measure as `evaluate` and
// `auto`.
#pragma once

#include <string>

#include "calibrate/task_check.h"
#include "graph/model.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// Returns what makes a meter for the outputs of `model`, whose samples are those of `run`. `task`
// is as in evaluate::ParseTask; labels that it names do not count, because the guard knows no names
// of samples. Empty for the task `none`. Throws Error(kInvalidArgument) if the task is none that is
// known.
calibrate::TaskMeterMaker GuardTask(const std::string& task, const graph::Model& model,
                                    const RunOptions& run);

}  // namespace bitpress::tasks
