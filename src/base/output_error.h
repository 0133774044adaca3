// The error of a model's output against that of a reference: the one rule by which the guard,
// fine-tuning, closeness, evaluations, searches and reports compare.
//
// - A value is lost if it is NaN or infinite where its reference is a number. An output that lost a
//   value has an infinite error, however few they are: whoever reads such a number goes on with it.
// - Values whose reference is no number are left out.
// - Samples count alike. The noise of a sample is its error in parts of its own energy, so that one
//   loud sample does not hide what the others lost.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"

namespace bitpress {

// Energies are sums of squares over the values that count. Lost values count as 0.
struct OutputError {
  double signal = 0;      // energy of the reference
  double found = 0;       // energy of the output
  double product = 0;     // sum of the products of both
  double error = 0;       // energy of their difference
  uint64_t num_lost = 0;  // values that are lost

  bool has_lost() const { return num_lost > 0; }
  // Returns the error in parts of the energy of the reference. +infinity if values are lost, or if
  // the reference is all 0 and the output is not.
  double Noise() const {
    if (num_lost == 0 && error == 0) return 0;
    if (num_lost > 0 || signal == 0) return std::numeric_limits<double>::infinity();
    return error / signal;
  }
};

// Compares one output of one sample. REQUIRES: both have the same size.
template <typename Real>
OutputError CompareOutputs(std::span<const Real> reference, std::span<const Real> output) {
  BITPRESS_DCHECK(reference.size() == output.size());
  OutputError result;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto wanted = static_cast<double>(reference[i]);
    if (!std::isfinite(wanted)) continue;
    const bool is_lost = !std::isfinite(output[i]);
    const double found = is_lost ? 0.0 : static_cast<double>(output[i]);
    result.num_lost += is_lost ? 1 : 0;
    result.signal += wanted * wanted;
    result.found += found * found;
    result.product += wanted * found;
    result.error += (wanted - found) * (wanted - found);
  }
  return result;
}

// Returns the noises of the samples that count, each 1 at most: a sample that is all error is lost,
// however large the error is. Samples that are silent beside the middle one have nothing to lose,
// and are left out unless values are lost in them.
std::vector<double> SampleNoises(std::span<const OutputError> samples);

// Returns their mean, and 1 more if a value is lost in any of them, so that this is worse than
// every error. 0 without samples.
double MeanNoise(std::span<const OutputError> samples);

}  // namespace bitpress
