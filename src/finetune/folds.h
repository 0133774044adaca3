// Divides a layer's samples into what teaches and what judges.
#pragma once

#include <vector>

#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer.h"
#include "finetune/moments.h"

namespace bitpress::finetune {

// A part of the samples that teaches, and one that judges.
struct Fold {
  const Moments* learned = nullptr;
  const Moments* judge = nullptr;
  double ridge = 0;          // for what it teaches, as a share of the mean square of the inputs
  double ridge_of_both = 0;  // for what both parts teach together, if each judges the other
};

// Returns the folds that LayerMoments::split says: one, or two if each part judges the other. Sets
// `report.judge`. Returns none if nothing can be learned or nothing can judge; `report.note` says
// why. Ridges follow from the noise in the moments (ridge.h), and are `least_ridge` or more.
// `moments` must outlive the folds.
std::vector<Fold> MakeFolds(const LinearLayer& layer, const LayerMoments& moments,
                            double least_ridge, bool has_free_bias, TunedLayerReport& report);

}  // namespace bitpress::finetune
