// Hardware that shifts sums of integers by a few bits, such as AMD's NPU, takes power-of-two scales
// only if they are near to each other. Rules of a target say how near (plan/target_profile.h).
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"
#include "plan/target_profile.h"

namespace bitpress::calibrate {

// Changes power-of-two scales of a resolved plan until its nodes keep the target's rules about
// them, in a few rounds. Scales that the plan gives stay. Returns a sentence for each scale that
// changed. What still breaks a rule is named by the check of the target. `model` is the float model
// that the plan is of.
std::vector<std::string> LimitShifts(const plan::TargetProfile& profile, const graph::Model& model,
                                     plan::ResolvedPlan& resolved, ThreadPool& pool);

}  // namespace bitpress::calibrate
