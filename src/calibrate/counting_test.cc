// Tests that the vector kernels count exactly as the scalar specification does, on every
// instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "calibrate/statistics.h"
#include "calibrate/test_statistics.h"
#include "formats/float_bits.h"
#include "kernels/cpu_target.h"
#include "kernels/fake_quantize.h"
#include "kernels/half.h"
#include "kernels/observe.h"

namespace bitpress::calibrate {
namespace {

class Counting : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::UseTarget(GetParam()); }
  void TearDown() override { kernels::UseTarget(""); }
};

// Returns values of a kind: any bits, a bell with zeros as behind a ReLU, or special values.
std::vector<float> MakeValues(size_t count, uint32_t kind) {
  static constexpr float kSpecials[] = {0.0f, -0.0f,  kInfinity,     -kInfinity,    NAN,
                                        -NAN, 1e-45f, -1e-45f,       1.1e-38f,      -1.1e-38f,
                                        1.0f, -1.0f,  3.4028235e38f, -3.4028235e38f};
  std::mt19937 random(kind + 17);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) {
    if (kind % 3 == 0) x = formats::FloatFromBits(static_cast<uint32_t>(random()));
    if (kind % 3 == 1) x = std::max(0.0f, normal(random));
    if (kind % 3 == 2) x = kSpecials[random() % std::size(kSpecials)];
  }
  return values;
}

Extremes ExtremesOf(std::span<const float> values) {
  TensorStatistics statistics;
  statistics.Add(values);
  return statistics.is_empty() ? Extremes{} : Extremes{statistics.min(), statistics.max()};
}

TEST_P(Counting, EqualsTheReference) {
  std::vector<size_t> lengths = {4096, 70000};
  for (size_t length = 0; length < 290; ++length) lengths.push_back(length);
  kernels::ObserveCounter counter;
  for (const size_t length : lengths) {
    for (uint32_t kind = 0; kind < 3; ++kind) {
      const size_t offset = length % 5;  // not aligned
      const std::vector<float> values = MakeValues(length + offset, kind);
      const std::span<const float> part(values.data() + offset, length);
      TensorStatistics expected;
      expected.Add(part);
      TensorStatistics found;
      const kernels::ObservedRange range = counter.Count(part);
      found.AddCounted(counter);
      ASSERT_EQ(found, expected) << length << " of kind " << kind;
      ASSERT_EQ((Extremes{range.min, range.max}), ExtremesOf(part));
    }
  }
}

TEST_P(Counting, WithoutSumsTheRestIsTheSame) {
  kernels::ObserveCounter counter, without_sums(/*has_sums=*/false);
  for (uint32_t kind = 0; kind < 30; ++kind) {
    const std::vector<float> values = MakeValues(kind * 997 % 5000, kind);
    counter.Count(values);
    without_sums.Count(values);
    TensorStatistics expected, found;
    expected.AddCounted(counter);
    found.AddCounted(without_sums);
    EXPECT_FALSE(found.has_sums());
    EXPECT_EQ(found.num_elements(), expected.num_elements());
    EXPECT_EQ(found.num_zeros(), expected.num_zeros());
    EXPECT_EQ(found.num_nan(), expected.num_nan());
    EXPECT_EQ(found.num_positive_infinity(), expected.num_positive_infinity());
    ASSERT_EQ(found.is_empty(), expected.is_empty());
    if (found.is_empty()) continue;
    EXPECT_EQ(found.min(), expected.min());
    EXPECT_EQ(found.max(), expected.max());
    const std::vector<Bin> bins = found.Bins(), expected_bins = expected.Bins();
    ASSERT_EQ(bins.size(), expected_bins.size()) << kind;
    for (size_t i = 0; i < bins.size(); ++i) {
      EXPECT_EQ(bins[i].lower, expected_bins[i].lower);
      EXPECT_EQ(bins[i].count, expected_bins[i].count);
    }
  }
}

TEST_P(Counting, AddsUpOverCalls) {
  kernels::ObserveCounter counter;
  TensorStatistics expected;
  for (uint32_t kind = 0; kind < 300; ++kind) {
    const std::vector<float> values = MakeValues(kind * 7 % 400, kind);
    expected.Add(values);
    counter.Count(values);
  }
  TensorStatistics found;
  found.AddCounted(counter);
  EXPECT_EQ(found, expected);
  TensorStatistics nothing;
  nothing.AddCounted(counter);
  EXPECT_EQ(nothing, TensorStatistics());
}

// Sums of squares of the largest significands pass 64 bits.
TEST_P(Counting, SumsDoNotOverflow) {
  const std::vector<float> values(70001, std::numeric_limits<float>::max());
  kernels::ObserveCounter counter;
  TensorStatistics expected, found;
  expected.Add(values);
  for (const float& x : values) counter.Count({&x, 1});
  found.AddCounted(counter);
  EXPECT_EQ(found, expected);
  counter.Count(values);
  found = {};
  found.AddCounted(counter);
  EXPECT_EQ(found, expected);
}

TEST_P(Counting, HalvesCountAsFloats) {
  std::vector<uint16_t> halves(65536 + 13);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  kernels::HalfToFloat(halves, floats.data());
  kernels::ObserveCounter counter;
  TensorStatistics expected, found;
  expected.Add(floats);
  const kernels::ObservedRange range = counter.CountHalves(halves);
  found.AddCounted(counter);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(range.max, 65504.0f);
}

TEST_P(Counting, RunsOnTheForcedTarget) {
  kernels::ObserveCounter counter;
  const std::vector<float> values(500, 1.0f);
  counter.Count(values);
  EXPECT_EQ(kernels::LastRun().kernel, "Observe");
  EXPECT_EQ(kernels::LastRun().target, kernels::CurrentVectors());
  kernels::ObserveCounter(/*has_sums=*/false).Count(values);
  EXPECT_EQ(kernels::LastRun().kernel, "ObserveCounts");
  EXPECT_EQ(kernels::LastRun().target, kernels::CurrentVectors());
}

INSTANTIATE_TEST_SUITE_P(Targets, Counting, testing::ValuesIn(kernels::SupportedTargets()));

}  // namespace
}  // namespace bitpress::calibrate
