#include "evaluate/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/output_error.h"

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

bool AreProbabilities(std::span<const double> scores) {
  constexpr double kTolerance = 0.01;
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  return std::abs(sum - 1) <= kTolerance &&
         std::ranges::all_of(scores, [](double p) { return p >= 0; });
}

double ProbabilityOf(std::span<const double> scores, size_t label) {
  BITPRESS_DCHECK(label < scores.size());
  return AreProbabilities(scores) ? scores[label] : std::exp(LogSoftmax(scores)[label]);
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

void OrderlessSum::Add(double x) {
  if (std::fabs(x) < ExactSum::kTooLargeDouble) {
    sum_.AddDouble(x);
  } else {
    ++num_too_large_;
  }
}

void OrderlessSum::Add(const OrderlessSum& other) {
  sum_.Add(other.sum_);
  num_too_large_ += other.num_too_large_;
}

double OrderlessSum::value() const {
  return num_too_large_ > 0 ? std::numeric_limits<double>::infinity() : sum_.Round();
}

void OrderlessSum::Write(ByteWriter& writer) const {
  writer.Sum(sum_);
  writer.Compact(num_too_large_);
}

OrderlessSum OrderlessSum::Read(ByteReader& reader) {
  OrderlessSum sum;
  sum.sum_ = reader.Sum();
  sum.num_too_large_ = reader.Compact();
  return sum;
}

void OutputComparison::Add(std::span<const double> reference, std::span<const double> output) {
  BITPRESS_DCHECK(reference.size() == output.size());
  for (size_t i = 0; i < reference.size() && is_identical_; ++i) {
    is_identical_ =
        reference[i] == output[i] || (std::isnan(reference[i]) && std::isnan(output[i]));
  }
  const OutputError of_sample = CompareOutputs(reference, output);
  const double error =
      of_sample.has_lost() ? std::numeric_limits<double>::infinity() : of_sample.error;
  num_values_ += reference.size();
  ++num_samples_;
  signal_.Add(of_sample.signal);
  noise_.Add(error);
  l2_.Add(std::sqrt(error));
  if (of_sample.has_lost()) return;
  if (of_sample.signal == 0 && of_sample.found == 0) {
    cosines_.Add(1);
  } else if (of_sample.signal > 0 && of_sample.found > 0) {
    // Rounding may pass 1 by an ulp.
    const double cosine =
        of_sample.product / (std::sqrt(of_sample.signal) * std::sqrt(of_sample.found));
    cosines_.Add(std::clamp(cosine, -1.0, 1.0));
  }
}

void OutputComparison::Add(const OutputComparison& other) {
  num_values_ += other.num_values_;
  num_samples_ += other.num_samples_;
  is_identical_ = is_identical_ && other.is_identical_;
  signal_.Add(other.signal_);
  noise_.Add(other.noise_);
  cosines_.Add(other.cosines_);
  l2_.Add(other.l2_);
}

void OutputComparison::Write(ByteWriter& writer) const {
  writer.Compact(num_values_);
  writer.Compact(num_samples_);
  writer.Number(static_cast<uint8_t>(is_identical_));
  for (const OrderlessSum* const sum : {&signal_, &noise_, &cosines_, &l2_}) sum->Write(writer);
}

OutputComparison OutputComparison::Read(ByteReader& reader) {
  OutputComparison comparison;
  comparison.num_values_ = reader.Compact();
  comparison.num_samples_ = reader.Compact();
  comparison.is_identical_ = reader.Number<uint8_t>() != 0;
  for (OrderlessSum* const sum :
       {&comparison.signal_, &comparison.noise_, &comparison.cosines_, &comparison.l2_}) {
    *sum = OrderlessSum::Read(reader);
  }
  return comparison;
}

// The sum is finite for all numbers that models give.
bool OutputComparison::has_lost() const { return std::isinf(l2_.value()); }

double OutputComparison::NoiseRatio() const {
  const double noise = noise_.value();
  if (noise == 0) return 0;
  const double signal = signal_.value();
  return signal == 0 ? std::numeric_limits<double>::infinity() : noise / signal;
}

double OutputComparison::MeanL2() const {
  return num_samples_ == 0 ? 0 : l2_.value() / static_cast<double>(num_samples_);
}

double OutputComparison::SqnrDb() const {
  const double noise = noise_.value();
  if (noise == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return 10.0 * std::log10(signal_.value() / noise);
}

double OutputComparison::Cosine() const {
  return num_samples_ == 0 ? 1.0 : cosines_.value() / static_cast<double>(num_samples_);
}

void RankCounter::Add(std::optional<size_t> rank) {
  ++num_samples_;
  if (rank && *rank == 0) ++num_first_;
  if (rank && *rank < 5) ++num_first_five_;
}

void RankCounter::Add(const RankCounter& other) {
  num_samples_ += other.num_samples_;
  num_first_ += other.num_first_;
  num_first_five_ += other.num_first_five_;
}

void RankCounter::Write(ByteWriter& writer) const {
  for (const uint64_t count : {num_samples_, num_first_, num_first_five_}) writer.Compact(count);
}

RankCounter RankCounter::Read(ByteReader& reader) {
  RankCounter counter;
  for (uint64_t* const count :
       {&counter.num_samples_, &counter.num_first_, &counter.num_first_five_}) {
    *count = reader.Compact();
  }
  if (counter.num_first_ > counter.num_first_five_ ||
      counter.num_first_five_ > counter.num_samples_) {
    reader.FailDamaged("its counts contradict each other");
  }
  return counter;
}

double RankCounter::Top1() const {
  BITPRESS_DCHECK(num_samples_ > 0);
  return static_cast<double>(num_first_) / static_cast<double>(num_samples_);
}

double RankCounter::Top5() const {
  BITPRESS_DCHECK(num_samples_ > 0);
  return static_cast<double>(num_first_five_) / static_cast<double>(num_samples_);
}

void ExpectedTop1::Add(std::span<const double> reference, std::span<const double> scores) {
  BITPRESS_DCHECK(reference.size() == scores.size());
  ++num_samples_;
  chance_.Add(1 / static_cast<double>(reference.size()));
  const auto wanted = TopClass(reference), found = TopClass(scores);
  if (!wanted) return;
  const double likeliest = ProbabilityOf(reference, *wanted);
  reference_.Add(likeliest);
  if (found) model_.Add(found == wanted ? likeliest : ProbabilityOf(reference, *found));
}

void ExpectedTop1::Add(const ExpectedTop1& other) {
  num_samples_ += other.num_samples_;
  model_.Add(other.model_);
  reference_.Add(other.reference_);
  chance_.Add(other.chance_);
}

void ExpectedTop1::Write(ByteWriter& writer) const {
  writer.Compact(num_samples_);
  for (const OrderlessSum* const sum : {&model_, &reference_, &chance_}) sum->Write(writer);
}

ExpectedTop1 ExpectedTop1::Read(ByteReader& reader) {
  ExpectedTop1 top1;
  top1.num_samples_ = reader.Compact();
  for (OrderlessSum* const sum : {&top1.model_, &top1.reference_, &top1.chance_}) {
    *sum = OrderlessSum::Read(reader);
  }
  return top1;
}

bool ExpectedTop1::IsMeaningful() const {
  constexpr double kShare = 1.0 / 3;
  const double chance = chance_.value() / static_cast<double>(num_samples_);
  return Reference() - chance >= kShare * (1 - chance);
}

double ExpectedTop1::Model() const { return model_.value() / static_cast<double>(num_samples_); }

double ExpectedTop1::Reference() const {
  return reference_.value() / static_cast<double>(num_samples_);
}

double Median(std::vector<double> values) {
  BITPRESS_DCHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace bitpress::evaluate
