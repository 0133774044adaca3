// How close two sets of numbers are, and how often the largest one is the right one. Pure functions
// and accumulators in double; the order of the calls is the order of the sums, so equal inputs give
// equal results. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace bitpress::evaluate {

// The number of classes ranked before `label`: those with a higher score, and those with the same
// score and a lower index. Nothing if a score is NaN: such a sample has no ranking.
// REQUIRES: label < scores.size().
std::optional<size_t> RankOf(std::span<const double> scores, size_t label);

// The class of rank 0. Nothing if a score is NaN. REQUIRES: scores is not empty.
std::optional<size_t> TopClass(std::span<const double> scores);

// The Kullback-Leibler divergence of softmax(scores) from softmax(reference), in nats: >= 0. Scores
// that are not finite count as if they were the lowest of their side.
// REQUIRES: both have the same size, 1 or more.
double Divergence(std::span<const double> reference, std::span<const double> scores);

// Compares outputs with those of a reference, sample by sample.
//
// A value that is not finite although the reference's is counts as 0, so it cannot hide: its whole
// energy is an error. Values whose reference is not finite are left out.
class OutputComparison {
 public:
  // Adds one sample (its output, flattened). REQUIRES: both have the same size.
  void Add(std::span<const double> reference, std::span<const double> output);

  uint64_t num_values() const { return num_values_; }
  uint64_t num_samples() const { return num_samples_; }
  // No difference in any value so far, NaN against NaN counting as none.
  bool is_identical() const { return is_identical_; }

  // sum (reference - output)^2 / sum reference^2 over all values of all samples; +infinity where
  // the reference is 0 and the output is not.
  double NoiseRatio() const;

  // 10 log10(sum reference^2 / sum (reference - output)^2) over all values of all samples: in dB,
  // +infinity without any error.
  double SqnrDb() const;

  // The cosine of the angle between reference and output of a sample, averaged over the samples. A
  // sample of zeros only has 1 with another one like it and 0 with any other.
  double Cosine() const;

  // The Euclidean norm of the error of a sample, averaged over the samples.
  double MeanL2() const;

 private:
  uint64_t num_values_ = 0;
  uint64_t num_samples_ = 0;
  bool is_identical_ = true;
  double signal_ = 0;
  double noise_ = 0;
  double cosine_sum_ = 0;
  double l2_sum_ = 0;
};

// Counts hits in the first 1 and the first 5 ranks.
class RankCounter {
 public:
  void Add(std::optional<size_t> rank);
  uint64_t num_samples() const { return num_samples_; }
  // Shares of the samples, 0 to 1. REQUIRES: a sample was added.
  double Top1() const;
  double Top5() const;

 private:
  uint64_t num_samples_ = 0;
  uint64_t num_first_ = 0;
  uint64_t num_first_five_ = 0;
};

// The middle value, or the mean of the two middle ones. REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace bitpress::evaluate
