// The first steps of Quantize, which other tasks share: the model is prepared and planned, and the
// plan gets its scales. What follows, learning and writing, may be the work of other processes.
#pragma once

#include "base/thread_pool.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "graph/pass.h"
#include "plan/quant_config.h"
#include "plan/resolved_plan.h"
#include "tasks/quantize.h"

namespace bitpress::tasks {

struct ResolvedModel {
  graph::Model model;  // float
  plan::ResolvedPlan resolved;
};

// Prepares the model, plans it (or reads the plan) and resolves the plan. Scales follow from
// `options.calibration` or from all samples, those of other shards too. Throws Error.
ResolvedModel ResolveModel(const QuantizeOptions& options, ThreadPool& pool,
                           QuantizeReport& report);

// Returns the model after its preparation for a configuration, from `options.shared` if another
// run made it. Throws Error.
graph::Model PreparedFor(const QuantizeOptions& options, const plan::QuantConfig& config);

// Returns the options of a configuration's fine-tuning, without a journal.
finetune::FinetuneOptions FinetuneOptionsFor(const plan::QuantConfig& config,
                                             const RunOptions& run);
// Returns the samples that it learns from. Throws Error(kInvalidArgument) if there are none.
RunOptions FinetuneSamples(const plan::QuantConfig& config, const RunOptions& run);

}  // namespace bitpress::tasks
