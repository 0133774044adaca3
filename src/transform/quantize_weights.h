// Pass quantize-weights: replaces the weights and biases that the plan quantizes by their quantized
// and dequantized values, once, when the model is written; no operator runs on them at inference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::transform {

// What became of one weight.
struct WeightStatistics {
  std::string value;      // its name in the plan
  std::string quantized;  // its name in the model now
  std::string format;
  int64_t num_elements = 0;
  double mean_squared_error = 0;
  double sqnr_db = 0;  // of the quantized values; +infinity without any error
};

struct QuantizedWeights {
  bool is_modified = false;
  std::vector<WeightStatistics>
      weights;  // in the plan's order, without those that an earlier run replaced
};

// A weight that is read in one way only keeps its name; otherwise each treatment gets a copy
// `<weight>_quantized`, and the original goes when nothing reads it any more. Float16 weights are
// computed in float32. The result does not depend on the number of threads. Throws
// Error(kInvalidArgument) if the plan does not fit (plan::CheckFits), and Error(kInvalidModel)
// naming node, tensor and index of the first NaN or infinity.
QuantizedWeights QuantizeWeights(graph::Model& model, const plan::QuantPlan& plan, ThreadPool& pool,
                                 const ProgressSink& progress = {});

}  // namespace bitpress::transform
