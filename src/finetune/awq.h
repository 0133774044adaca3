// AWQ (Lin et al., 2023) scales the channels of matrix products before their weights are rounded.
// It is for weight-only quantization: the few weights that multiply large activations matter most.
// Each input channel is divided by a factor, and the weight's rows are multiplied by it:
//
//   s = (root mean square of the channel)^alpha, alpha = 0, 0.1, ..., 1
//
// The alpha is the one with the smallest error in the products. The errors are computed from the
// second moments of the inputs.
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
