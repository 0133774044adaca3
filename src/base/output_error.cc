#include "base/output_error.h"

#include <algorithm>
#include <numeric>

namespace bitpress {

std::vector<double> SampleNoises(std::span<const OutputError> samples) {
  constexpr double kSilence = 1e-6;  // of the energy of the middle sample
  std::vector<double> energies;
  for (const OutputError& sample : samples) {
    if (sample.signal > 0) energies.push_back(sample.signal);
  }
  double least = 0;
  if (!energies.empty()) {
    // The middle one, as the mean would be that of one loud sample.
    const auto middle = energies.begin() + (std::ssize(energies) - 1) / 2;
    std::ranges::nth_element(energies, middle);
    least = kSilence * *middle;
  }
  std::vector<double> noises;
  for (const OutputError& sample : samples) {
    if (sample.has_lost() || sample.signal > least) noises.push_back(std::min(1.0, sample.Noise()));
  }
  return noises;
}

double MeanNoise(std::span<const OutputError> samples) {
  const std::vector<double> noises = SampleNoises(samples);
  if (noises.empty()) return 0;
  const double sum = std::accumulate(noises.begin(), noises.end(), 0.0);
  const bool has_lost = std::ranges::any_of(samples, &OutputError::has_lost);
  return sum / static_cast<double>(noises.size()) + (has_lost ? 1 : 0);
}

}  // namespace bitpress
