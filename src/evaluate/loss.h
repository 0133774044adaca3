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
  // With labels besides: how often the first class is the right one.
  std::optional<double> top1, reference_top1;
};

// 10 log10(1 / noise); +infinity without any.
double SqnrDb(double noise);

// Takes one run after another. Not thread-safe.
class LossMeter {
 public:
  // Outputs of the same position belong together; those without values are left out.
  // `labels` has the class of each sample, or is empty; one beyond the classes is never right.
  // REQUIRES: their shapes agree.
  void Add(std::span<const Output> reference, std::span<const Output> outputs, size_t num_samples,
           std::span<const int64_t> labels = {});
  // REQUIRES: something was added.
  Loss Result() const;

 private:
  OutputComparison all_;
  double divergence_sum_ = 0;
  RankCounter agreements_;  // rank 0: same class; none: another
  RankCounter ranks_, reference_ranks_;
};

}  // namespace bitpress::evaluate
