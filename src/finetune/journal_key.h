// The key of a fine-tuning journal: one line of text with everything that the results depend on. A
// journal with another key is not read.
#pragma once

#include <cstdint>
#include <string>

#include "finetune/finetune.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::finetune {

// The key holds the versions of Bitpress and of ONNX Runtime, and numbers for the content of the
// model, of the plan with all options that change results, and of every sample
// (data::Source::Fingerprint). Threads, memory and progress are not in it.
std::string JournalKey(const graph::Model& float_model, const plan::ResolvedPlan& resolved,
                       const FinetuneOptions& options, uint64_t samples);

// Returns the key of moments: what sums of given samples depend on beside the model. So moments
// serve all recipes and formats of weights whose activations are quantized alike.
std::string MomentsKey(const plan::ResolvedPlan& resolved, const FinetuneOptions& options);

}  // namespace bitpress::finetune
