// Measures how much the outputs of a changed model lose against those of the model that it was made
// from. Searches compare candidates by these numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evaluate/metrics.h"
#include "evaluate/outputs.h"

namespace bitpress::evaluate {

// The loss of a model by several measures.
struct Loss {
  // Energy of the error divided by the energy of the reference: 10^(-SQNR/10). This and the next
  // are infinite if a value is lost (base/output_error.h), and so is the divergence.
  double noise = 0;
  double l2 = 0;      // Euclidean norm of the error, averaged over samples
  double cosine = 1;  // see OutputComparison
  // Kullback-Leibler divergence of the softmax of the class scores, in nats, averaged over samples.
  // Null if the model gives no class scores.
  std::optional<double> divergence;
  // Share of the samples for which both models rank the same class first, 0 to 1. Null if the model
  // gives no class scores.
  std::optional<double> agreement;
  // Share of the samples whose first class is the right one, 0 to 1. Null without labels or without
  // class scores.
  std::optional<double> top1, reference_top1;
};

// Returns 10 log10(1 / noise); +infinity if there is no noise.
double SqnrDb(double noise);

// Measures the loss over several runs. Not thread-safe.
class LossMeter {
 public:
  // Adds one run. Outputs of the same index are compared, and those without values are left out.
  // `labels` has the class of each sample, or is empty. A label beyond the classes is never right.
  // Throws Error(kUnsupported) if two outputs have different shapes: the shape depends on values.
  // REQUIRES: both models have the same number of outputs.
  void Add(std::span<const Output> reference, std::span<const Output> outputs, size_t num_samples,
           std::span<const int64_t> labels = {});
  // Returns the loss over all runs.
  Loss Result() const;

 private:
  OutputComparison all_;
  OrderlessSum divergences_;
  RankCounter agreements_;  // rank 0: both models rank the same class first; null: they do not
  RankCounter ranks_, reference_ranks_;
};

}  // namespace bitpress::evaluate
