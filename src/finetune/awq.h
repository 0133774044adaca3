// AWQ (Lin et al., 2023): of weights that are quantized while activations stay float, the few that
// meet large activations matter most. Each input channel of a matrix product is divided by a factor
// and the weight's rows are multiplied by it before they are rounded:
//
//   s = (root mean square of the channel)^alpha, alpha of 0, 0.1, ..., 1
//
// with the alpha that leaves the least error in the products, by the second moments of the inputs.
#pragma once

#include "base/thread_pool.h"
#include "data/source.h"
#include "finetune/gather.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "rewrite/smooth.h"

namespace bitpress::finetune {

// Folds the factors into what comes before, or into a Mul, as rewrite::Smooth does. Activations
// that the plan quantizes are left alone, and those where alpha = 0 is the best. `plan` fits the
// model afterwards too. Throws Error as GatherMoments.
rewrite::SmoothReport ScaleChannels(graph::Model& model, const plan::QuantPlan& plan,
                                    data::Source& source, const GatherOptions& options,
                                    ThreadPool& pool);

}  // namespace bitpress::finetune
