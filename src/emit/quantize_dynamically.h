// Replaces operators with dynamic activations by operators on integers (pass quantize-dynamically).
// The input of such an operator gets its scale at every inference, from its own range, so nothing
// is calibrated. ApplyPlan runs it if the plan has dynamic rows.
//
//  - A product or convolution becomes DynamicQuantizeLinear, MatMulInteger or ConvInteger, and a
//    product of scales behind them.
//  - A product whose activation has a scale for each row becomes the form of products_of_rows.h.
//  - LSTM becomes com.microsoft DynamicQuantizeLSTM.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "weights/weight_job.h"

namespace bitpress::emit {

// A plan in two parts. `dynamic` has the dynamic activations, with the weights and biases of the
// nodes that read them. `rest` has all other rows. A weight that nodes of both parts read has a row
// in each part.
struct SplitPlan {
  plan::ResolvedPlan dynamic;
  plan::ResolvedPlan rest;
};
// Returns nothing if the plan has no dynamic activation.
std::optional<SplitPlan> SplitDynamic(const plan::ResolvedPlan& resolved);

// Replaces the nodes that read the activations of `dynamic`, whose plan is SplitPlan::dynamic.
// Weights are quantized when the model is written; `pool` is used until then. Returns the
// statistics of the weights. Throws Error(kInvalidArgument) if the plan does not fit, or if an
// activation row has no weight row beside it. A second run does not fit, because the nodes that the
// plan names are gone.
std::vector<std::shared_ptr<const weights::WeightStatistics>> QuantizeDynamically(
    graph::Model& model, const plan::ResolvedPlan& dynamic, ThreadPool& pool);

}  // namespace bitpress::emit
