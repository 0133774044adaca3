#include "evaluate/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace bitpress::evaluate {
namespace {

bool HasNan(std::span<const double> scores) {
  return std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); });
}

}  // namespace

std::vector<double> LogSoftmax(std::span<const double> scores) {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (const double score : scores) {
    if (!std::isfinite(score)) continue;
    lowest = std::min(lowest, score);
    highest = std::max(highest, score);
  }
  if (lowest > highest) lowest = highest = 0;  // no score is finite
  std::vector<double> logs(scores.size());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    logs[i] = (std::isfinite(scores[i]) ? scores[i] : lowest) - highest;
    sum += std::exp(logs[i]);
  }
  const double log_sum = std::log(sum);
  for (double& log : logs) log -= log_sum;
  return logs;
}

double DivergenceOfLogs(std::span<const double> reference, std::span<const double> found) {
  BITPRESS_DCHECK(reference.size() == found.size());
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    sum += std::exp(reference[i]) * (reference[i] - found[i]);
  }
  return std::max(sum, 0.0);
}

double Divergence(std::span<const double> reference, std::span<const double> scores) {
  BITPRESS_DCHECK(!scores.empty() && reference.size() == scores.size());
  return DivergenceOfLogs(LogSoftmax(reference), LogSoftmax(scores));
}

std::optional<size_t> RankOf(std::span<const double> scores, size_t label) {
  BITPRESS_DCHECK(label < scores.size());
  if (HasNan(scores)) return std::nullopt;
  size_t rank = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > scores[label] || (scores[i] == scores[label] && i < label)) ++rank;
  }
  return rank;
}

std::optional<size_t> TopClass(std::span<const double> scores) {
  BITPRESS_DCHECK(!scores.empty());
  if (HasNan(scores)) return std::nullopt;
  // max_element returns the first of equal ones.
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void OutputComparison::Add(std::span<const double> reference, std::span<const double> output) {
  BITPRESS_DCHECK(reference.size() == output.size());
  double reference_energy = 0;
  double output_energy = 0;
  double product = 0;
  double noise = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double wanted = reference[i];
    const bool is_same = wanted == output[i] || (std::isnan(wanted) && std::isnan(output[i]));
    is_identical_ = is_identical_ && is_same;
    if (!std::isfinite(wanted)) continue;
    const double found = std::isfinite(output[i]) ? output[i] : 0.0;
    reference_energy += wanted * wanted;
    output_energy += found * found;
    product += wanted * found;
    noise += (wanted - found) * (wanted - found);
  }
  num_values_ += reference.size();
  ++num_samples_;
  signal_ += reference_energy;
  noise_ += noise;
  l2_sum_ += std::sqrt(noise);
  if (reference_energy == 0 && output_energy == 0) {
    cosine_sum_ += 1;
  } else if (reference_energy > 0 && output_energy > 0) {
    // Rounding may pass 1 by an ulp.
    const double cosine = product / (std::sqrt(reference_energy) * std::sqrt(output_energy));
    cosine_sum_ += std::clamp(cosine, -1.0, 1.0);
  }
}

void OutputComparison::Add(const OutputComparison& other) {
  num_values_ += other.num_values_;
  num_samples_ += other.num_samples_;
  is_identical_ = is_identical_ && other.is_identical_;
  signal_ += other.signal_;
  noise_ += other.noise_;
  cosine_sum_ += other.cosine_sum_;
  l2_sum_ += other.l2_sum_;
}

double OutputComparison::NoiseRatio() const {
  if (noise_ == 0) return 0;
  return signal_ == 0 ? std::numeric_limits<double>::infinity() : noise_ / signal_;
}

double OutputComparison::MeanL2() const {
  return num_samples_ == 0 ? 0 : l2_sum_ / static_cast<double>(num_samples_);
}

double OutputComparison::SqnrDb() const {
  if (noise_ == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return 10.0 * std::log10(signal_ / noise_);
}

double OutputComparison::Cosine() const {
  return num_samples_ == 0 ? 1.0 : cosine_sum_ / static_cast<double>(num_samples_);
}

void RankCounter::Add(std::optional<size_t> rank) {
  ++num_samples_;
  if (rank && *rank == 0) ++num_first_;
  if (rank && *rank < 5) ++num_first_five_;
}

double RankCounter::Top1() const {
  BITPRESS_DCHECK(num_samples_ > 0);
  return static_cast<double>(num_first_) / static_cast<double>(num_samples_);
}

double RankCounter::Top5() const {
  BITPRESS_DCHECK(num_samples_ > 0);
  return static_cast<double>(num_first_five_) / static_cast<double>(num_samples_);
}

double Median(std::vector<double> values) {
  BITPRESS_DCHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace bitpress::evaluate
