// The ridge that the samples of a layer call for, by how far two parts of them agree.
#pragma once

#include "finetune/layer.h"
#include "finetune/moments.h"

namespace bitpress::finetune {

// The matrix of the inputs' second moments, C, is known with noise. Ledoit and Wolf (2004) give the
// mix of C and the mean square times the identity that is expected to be nearest to the true
// matrix; the weight of the identity is a ridge. The noise follows from two parts of the samples,
// so that positions of one sample need not be independent.
struct NoiseRidges {
  // The ridges for each part alone and for both together, as shares of the mean square of the
  // inputs. They are at most kMostRidge, with which C has no influence.
  double first = 0;
  double second = 0;
  double both = 0;
};
inline constexpr double kMostRidge = 1e6;

// `is_centred`: the moments are those about the means, as where a bias takes the means out.
// REQUIRES: both parts have positions.
NoiseRidges RidgesOf(const LinearLayer& layer, const Moments& first, const Moments& second,
                     bool is_centred);

}  // namespace bitpress::finetune
