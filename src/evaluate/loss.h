// How far outputs of a changed model are from those of the model it was made from, in one number a
// measure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evaluate/metrics.h"
#include "evaluate/outputs.h"

namespace bitpress::evaluate {

struct Loss {
  // Energy of the error in parts of the energy of the reference: 10^(-SQNR/10).
  double noise = 0;
  double l2 = 0;      // mean over samples of the Euclidean norm of the error
  double cosine = 1;  // see OutputComparison
  // Where the model gives class scores: mean over samples of the Kullback-Leibler divergence of
  // their softmax, in nats, and how often both rank the same class first, 0 to 1.
  std::optional<double> divergence, agreement;
};

// 10 log10(1 / noise); +infinity without any.
double SqnrDb(double noise);

// Takes one run after another. Not thread-safe.
class LossMeter {
 public:
  // Outputs of the same position belong together; those without values are left out.
  // REQUIRES: their shapes agree.
  void Add(std::span<const Output> reference, std::span<const Output> outputs, size_t num_samples);
  // REQUIRES: something was added.
  Loss Result() const;

 private:
  OutputComparison all_;
  double divergence_sum_ = 0;
  RankCounter agreements_;  // rank 0: same class; none: another
};

}  // namespace bitpress::evaluate
