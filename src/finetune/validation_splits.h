// Splits a layer's samples into training and validation.
#pragma once

#include <vector>

#include "finetune/gather.h"
#include "finetune/journal.h"
#include "finetune/layer.h"
#include "finetune/moments.h"

namespace bitpress::finetune {

// A part of the samples to learn from, and one to measure what was learned.
struct ValidationSplit {
  const Moments* training = nullptr;
  const Moments* validation = nullptr;
  double ridge = 0;          // for `training`, as a share of the mean square of the inputs
  double ridge_of_both = 0;  // for both parts together, if each validates the other
};

// Returns the splits that LayerMoments::split says: one, or two if each part validates the other.
// Sets `report.validated_on`. Returns none if nothing can be learned or nothing can validate;
// `report.note` says why. Ridges follow from the noise in the moments (ridge.h), and are
// `least_ridge` or more. `moments` must outlive the splits.
std::vector<ValidationSplit> MakeValidationSplits(const LinearLayer& layer,
                                                  const LayerMoments& moments, double least_ridge,
                                                  bool has_free_bias, TunedLayerReport& report);

}  // namespace bitpress::finetune
