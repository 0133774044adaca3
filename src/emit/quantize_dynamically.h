// Pass quantize-dynamically: operators whose input gets its scale at every inference, from its own
// range, compute on integers: DynamicQuantizeLinear, MatMulInteger or ConvInteger, and the product
// of scales behind them; products whose activations have a scale for each row as
// products_of_rows.h says; LSTM becomes com.microsoft DynamicQuantizeLSTM. Nothing is
// calibrated.
#pragma once

#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "weights/weight_job.h"

namespace bitpress::emit {

// A plan in two: its dynamic activations with the weights and biases of the nodes that read them,
// and the rest. A weight that both kinds of nodes read has a row in each.
struct SplitPlan {
  plan::QuantPlan dynamic;
  plan::QuantPlan rest;
};
SplitPlan SplitDynamic(const plan::QuantPlan& plan);

// The plan of `dynamic` is that of SplitDynamic. Weights are quantized when the model is written;
// `pool` is used until then. Returns what became of them. Throws Error(kInvalidArgument) if the
// plan does not fit, where a row has no weight row beside it too: the nodes it names are replaced,
// so a second run does not fit.
std::vector<std::shared_ptr<const weights::WeightStatistics>> QuantizeDynamically(
    graph::Model& model, const plan::ResolvedPlan& dynamic, ThreadPool& pool);

}  // namespace bitpress::emit
