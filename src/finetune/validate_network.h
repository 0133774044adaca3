// Validates fine-tuning by the outputs of the whole network. Layers that come closer to the float
// model one by one can still leave the network's outputs farther from it: their errors add up in
// other ways, and few outputs reflect only part of a layer's error.
#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "base/fields.h"

namespace bitpress::finetune {

// The squared errors of one run's floating-point outputs (NetworkOutputs::ErrorsOf). Those of
// outputs that lost values are infinite.
using OutputErrors = std::vector<double>;

// The gain of the network's outputs from what was learned.
struct NetworkValidation {
  size_t num_runs = 0;
  size_t num_lost_runs = 0;
  double gain_db = 0;
  double least_gain_db = 0;  // gain of the output that gains least
  double uncertainty_db = 0;
  double run_gain_db = 0;         // mean of the gains of single runs
  double run_uncertainty_db = 0;  // its standard error
  bool is_better = false;

  // Returns whether what was learned must be undone: it is not better, or loses values though no
  // run can be compared.
  bool is_refused() const { return !is_better && (num_runs > 0 || num_lost_runs > 0); }
};
constexpr auto FieldsOf(const NetworkValidation*) {
  using Validation = NetworkValidation;
  return std::tuple(
      Field{"num_runs", &Validation::num_runs,
            "Runs that validated. 0: none, as where no output is a float."},
      Field{"num_lost_runs", &Validation::num_lost_runs,
            "Runs whose outputs lost values by what was learned."},
      Field{"gain_db", &Validation::gain_db, "Mean over the outputs of the gain in their SQNR."},
      Field{"uncertainty_db", &Validation::uncertainty_db,
            "Standard error of the gain, by how much it depends on single runs."},
      Field{"is_better", &Validation::is_better,
            "The gain is clear, and no output loses much or lost values."});
}

// Compares the errors of two networks in the same runs. Runs in which outputs lost values before do
// not count, as no error can be compared with that, nor do those that lose them by what was
// learned: one of these is enough to refuse it. The gain is at least as uncertain as
// `least_uncertainty_db`. One run alone, which does not show how much runs differ, counts as
// uncertain by 1 dB.
NetworkValidation ValidateNetwork(std::span<const OutputErrors> before,
                                  std::span<const OutputErrors> after, double least_uncertainty_db);

}  // namespace bitpress::finetune
