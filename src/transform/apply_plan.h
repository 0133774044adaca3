// Turns a float model into the quantized model of a plan: the schedule of this room's passes.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "transform/quantize_weights.h"

namespace bitpress::transform {

// One pass as it ran.
struct PassReport {
  std::string name;  // "quantize-weights"
  bool is_modified = false;
  double time_ms = 0;
};

struct TransformReport {
  std::vector<PassReport> passes;
  std::vector<WeightStatistics> weights;
};

// Runs quantize-weights, insert-quantizers and record-config (metadata that say how the model was
// made). A second run with the same plan modifies nothing. Throws Error as the passes do; the model
// is in an unspecified, but valid state then.
TransformReport ApplyPlan(graph::Model& model, const plan::QuantPlan& plan, ThreadPool& pool,
                          const ProgressSink& progress = {});

// Pass record-config: writes the metadata bitpress.version, bitpress.config and, if the plan
// quantizes weights, bitpress.weights. Returns whether any of them changed.
bool RecordConfig(graph::Model& model, const plan::QuantPlan& plan);

}  // namespace bitpress::transform
