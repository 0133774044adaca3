// The key of a fine-tuning journal: one line of text with everything that the results depend on. A
// journal with another key is not read.
#pragma once

#include <string>

#include "data/source.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::finetune {

// The key holds the versions of Bitpress and of ONNX Runtime, and numbers for the content of the
// model, of the plan with all options that change results, and of every sample. Threads, memory and
// progress are not in it. Reads all samples once. Throws Error as they do.
std::string JournalKey(const graph::Model& float_model, const plan::ResolvedPlan& resolved,
                       const FinetuneOptions& options, data::Source& source);

}  // namespace bitpress::finetune
