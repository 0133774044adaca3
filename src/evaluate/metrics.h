// Metrics of a model's outputs: the closeness of two sets of numbers, and ranks of classes. They
// are plain functions, and accumulators over samples. The figures of a sample are computed in
// double. Their sums over samples are exact, so that they do not depend on the order of the
// samples, nor on how these are divided: accumulators add up. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/exact_sum.h"

namespace bitpress::evaluate {

// Returns the number of classes ranked before `label`: those with a higher score, and those with
// the same score and a lower index. Null if a score is NaN, as such a sample has no ranking.
// REQUIRES: label < scores.size().
std::optional<size_t> RankOf(std::span<const double> scores, size_t label);

// Returns the class of rank 0. Null if a score is NaN. REQUIRES: scores is not empty.
std::optional<size_t> TopClass(std::span<const double> scores);

// Returns the logarithms of softmax(scores). Scores that are not finite count as the lowest finite
// one beside them.
std::vector<double> LogSoftmax(std::span<const double> scores);

// Returns the Kullback-Leibler divergence of two distributions from their logarithms, in nats. It
// is never negative. REQUIRES: both have the same size.
double DivergenceOfLogs(std::span<const double> reference, std::span<const double> found);

// Returns the Kullback-Leibler divergence of softmax(scores) from softmax(reference), in nats. It
// is never negative. Scores that are not finite count as the lowest finite one beside them.
// REQUIRES: both have the same size, 1 or more.
double Divergence(std::span<const double> reference, std::span<const double> scores);

// Returns whether the scores are probabilities: none is negative, and they add up to 1 within a
// hundredth.
bool AreProbabilities(std::span<const double> scores);

// Returns how likely a class is by a model's scores: one of them if they are probabilities, else
// softmax(scores). REQUIRES: label < scores.size().
double ProbabilityOf(std::span<const double> scores, size_t label);

// A sum of doubles that does not depend on their order.
class OrderlessSum {
 public:
  // Adds x. Beyond ExactSum::kTooLargeDouble, or as NaN, it makes the sum infinite.
  void Add(double x);
  void Add(const OrderlessSum& other);
  double value() const;
  void Write(ByteWriter& writer) const;
  static OrderlessSum Read(ByteReader& reader);
  bool operator==(const OrderlessSum&) const = default;

 private:
  ExactSum sum_;
  uint64_t num_too_large_ = 0;
};

// Compares outputs with those of a reference, sample by sample, by the rule of base/output_error.h:
// a lost value makes the error infinite, and the cosine of its sample 0. Values whose reference is
// not finite are left out.
class OutputComparison {
 public:
  // Adds one sample (its output, flattened). REQUIRES: both have the same size.
  void Add(std::span<const double> reference, std::span<const double> output);
  // Adds all samples of another comparison.
  void Add(const OutputComparison& other);
  // The least bytes that Write makes: two counts, a sign, and four sums.
  static constexpr size_t kLeastBytes = 3 + 4 * (sizeof(uint64_t) * ExactSum::kNumWords + 1);
  void Write(ByteWriter& writer) const;
  static OutputComparison Read(ByteReader& reader);
  bool operator==(const OutputComparison&) const = default;

  uint64_t num_values() const { return num_values_; }
  uint64_t num_samples() const { return num_samples_; }
  // Returns whether no value differed so far. NaN equals NaN here.
  bool is_identical() const { return is_identical_; }

  // Returns whether a value is lost.
  bool has_lost() const;

  // Returns sum (reference - output)^2 / sum reference^2 over all values of all samples. +infinity
  // if all references are 0 and an output is not, or if a value is lost.
  double NoiseRatio() const;

  // Returns 10 log10(sum reference^2 / sum (reference - output)^2) over all values of all samples,
  // in dB. +infinity if there is no error, -infinity if a value is lost.
  double SqnrDb() const;

  // Returns the cosine of the angle between reference and output of a sample, averaged over the
  // samples. If both are only zeros, their cosine is 1; if one is, it is 0.
  double Cosine() const;

  // Returns the Euclidean norm of the error of a sample, averaged over the samples.
  double MeanL2() const;

 private:
  uint64_t num_values_ = 0;
  uint64_t num_samples_ = 0;
  bool is_identical_ = true;
  OrderlessSum signal_, noise_, cosines_, l2_;
};

// Counts the samples whose rank is the first, or one of the first five.
class RankCounter {
 public:
  // Adds a sample. Null counts as a miss.
  void Add(std::optional<size_t> rank);
  void Add(const RankCounter& other);
  void Write(ByteWriter& writer) const;
  static RankCounter Read(ByteReader& reader);
  bool operator==(const RankCounter&) const = default;
  uint64_t num_samples() const { return num_samples_; }
  // Return the share of the samples, 0 to 1. REQUIRES: a sample was added.
  double Top1() const;
  double Top5() const;

 private:
  uint64_t num_samples_ = 0;
  uint64_t num_first_ = 0;
  uint64_t num_first_five_ = 0;
};

// The share of samples that models would rank right if their classes were drawn by the reference's
// own probabilities. Where two models rank different classes first, it tells whether these were
// nearly as likely; a share of equal first classes does not.
class ExpectedTop1 {
 public:
  // Adds a sample. Scores without a first class (a NaN is among them) count as wrong. REQUIRES:
  // both have the same size.
  void Add(std::span<const double> reference, std::span<const double> scores);
  void Add(const ExpectedTop1& other);
  void Write(ByteWriter& writer) const;
  static ExpectedTop1 Read(ByteReader& reader);
  bool operator==(const ExpectedTop1&) const = default;
  uint64_t num_samples() const { return num_samples_; }
  // Returns whether the reference is surer of its first classes than chance, by a third of what is
  // left to certainty. Below that its scores are no probabilities by which a loss could be told.
  // REQUIRES: a sample was added.
  bool IsMeaningful() const;
  // Return the shares of the model and of the reference, 0 to 1. REQUIRES: a sample was added.
  double Model() const;
  double Reference() const;

 private:
  uint64_t num_samples_ = 0;
  OrderlessSum model_, reference_, chance_;
};

// Returns the middle value, or the mean of the two middle ones. REQUIRES: values is not empty.
double Median(std::vector<double> values);

}  // namespace bitpress::evaluate
