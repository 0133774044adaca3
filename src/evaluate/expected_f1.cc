#include "evaluate/expected_f1.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "evaluate/average_precision.h"

namespace bitpress::evaluate {
namespace {

constexpr std::array kMembers = {&ExpectedBoxes::num_wanted, &ExpectedBoxes::num_found,
                                 &ExpectedBoxes::objects, &ExpectedBoxes::kept,
                                 &ExpectedBoxes::right};

double F1(double right, double num_boxes, double num_objects) {
  const double all = num_boxes + num_objects;
  return all > 0 ? 2 * right / all : 0;
}

double ModelF1(const ExpectedBoxes& sum) { return F1(sum.right, sum.num_found, sum.objects); }
double ReferenceF1(const ExpectedBoxes& sum) { return F1(sum.kept, sum.num_wanted, sum.objects); }

double DropOf(const ExpectedBoxes& sum) {
  const double reference = ReferenceF1(sum);
  return reference > 0 ? (reference - ModelF1(sum)) / reference : 0;
}

}  // namespace

void ExpectedF1::Add(const ExpectedF1& other) {
  samples_.insert(samples_.end(), other.samples_.begin(), other.samples_.end());
}

double ExpectedF1::Model() const { return ModelF1(Sum()); }
double ExpectedF1::Reference() const { return ReferenceF1(Sum()); }

// Sums in an order of the samples that follows from what they are.
ExpectedBoxes ExpectedF1::Sum() const {
  std::vector<ExpectedBoxes> sorted = samples_;
  std::ranges::sort(sorted);
  ExpectedBoxes sum;
  for (const ExpectedBoxes& sample : sorted) {
    for (double ExpectedBoxes::*const member : kMembers) sum.*member += sample.*member;
  }
  return sum;
}

double ExpectedF1::DropAtMost() const {
  BITPRESS_DCHECK(samples_.size() >= 2);
  constexpr double kDeviations = 1.64;  // 95 % of a normal distribution lie below
  const ExpectedBoxes sum = Sum();
  const auto count = static_cast<double>(samples_.size());
  std::vector<double> drops;
  for (const ExpectedBoxes& sample : samples_) {
    ExpectedBoxes others = sum;
    for (double ExpectedBoxes::*const member : kMembers) others.*member -= sample.*member;
    drops.push_back(DropOf(others));
  }
  std::ranges::sort(drops);
  double mean = 0, square = 0;
  for (const double drop : drops) mean += drop / count;
  for (const double drop : drops) square += (drop - mean) * (drop - mean);
  return DropOf(sum) + kDeviations * std::sqrt((count - 1) / count * square);
}

void ExpectedF1::Write(ByteWriter& writer) const {
  std::vector<ExpectedBoxes> sorted = samples_;
  std::ranges::sort(sorted);
  writer.Compact(sorted.size());
  for (const ExpectedBoxes& sample : sorted) {
    for (const double ExpectedBoxes::*const member : kMembers) {
      writer.Number(std::bit_cast<uint64_t>(sample.*member));
    }
  }
}

ExpectedF1 ExpectedF1::Read(ByteReader& reader) {
  constexpr double kMostSum = 0x1p53;  // doubles count up to it without gaps
  ExpectedF1 expected;
  expected.samples_.resize(reader.Count(kMembers.size() * sizeof(uint64_t)));
  for (ExpectedBoxes& sample : expected.samples_) {
    for (double ExpectedBoxes::*const member : kMembers) {
      sample.*member = std::bit_cast<double>(reader.Number<uint64_t>());
      // NaN fails both comparisons.
      if (!(sample.*member >= 0 && sample.*member <= kMostSum)) {
        reader.FailDamaged("a sum of scores is negative or too large");
      }
    }
  }
  return expected;
}

double ShareOfThresholds(double overlap) {
  const std::array<double, kNumThresholds> thresholds = OverlapThresholds();
  const auto count =
      std::ranges::count_if(thresholds, [&](double least) { return overlap >= least; });
  return static_cast<double>(count) / static_cast<double>(kNumThresholds);
}

}  // namespace bitpress::evaluate
