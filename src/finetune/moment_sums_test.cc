#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/byte_stream.h"
#include "base/digit_sums.h"
#include "base/error.h"
#include "finetune/moment_accumulator.h"
#include "finetune/moments.h"
#include "finetune/sum_matrix.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// Runs of different lengths and magnitudes, up to several terms each.
class RunsTest : public testing::Test {
 protected:
  static constexpr int64_t kColumns = 70;
  static constexpr int64_t kRows = 9;
  static constexpr size_t kNumRuns = 24;

  struct Run {
    int64_t length;
    std::vector<float> x, y;
  };

  void SetUp() override {
    constexpr std::array<int64_t, 6> kLengths = {1, 7, 64, 300, 5000, 16};
    for (size_t i = 0; i < kNumRuns; ++i) {
      Run& run = runs_.emplace_back();
      run.length = kLengths[i % kLengths.size()];
      run.x = RandomNormal(static_cast<size_t>(run.length * kColumns), static_cast<uint32_t>(i));
      run.y = RandomNormal(static_cast<size_t>(run.length * kRows), static_cast<uint32_t>(i + 99));
      const float scale = std::ldexp(1.0F, static_cast<int>(i * 7 % 30) - 15);
      for (float& value : run.x) value *= scale;
      if (run.length > 3) run.x[2 * kColumns + 1] = std::numeric_limits<float>::infinity();
    }
  }

  // Returns the bytes of the sums of some runs, in this order.
  std::string Gather(const std::vector<size_t>& which, const runtime::ParallelTasks& run_parallel,
                     const MomentOptions& options = {.num_positions = 2500}) const {
    MomentAccumulator accumulator(layer_, options);
    for (const size_t i : which) {
      const Run& run = runs_[i];
      accumulator.Add(std::vector<int64_t>{run.length, kColumns}, run.x.data(),
                      std::vector<int64_t>{run.length, kRows}, run.y.data(), run_parallel, {i});
    }
    ByteWriter out;
    accumulator.Finish(run_parallel).Write(out);
    return out.bytes();
  }

  std::string Merge(const std::vector<std::string>& parts) const {
    MomentSums sums(ShapeOf(layer_), ArrayPlace::kHeap);
    ThreadPool pool(3);
    for (const std::string& part : parts) {
      ByteReader in(part, "moments");
      sums.AddFrom(in, pool);
      in.ExpectEnd();
    }
    ByteWriter out;
    sums.Write(out);
    return out.bytes();
  }

  const LinearLayer layer_ = GemmLayer(kColumns, kRows);
  std::vector<Run> runs_;
};

TEST_F(RunsTest, TheirOrderAndThreadsDoNotMatter) {
  std::vector<size_t> order(kNumRuns);
  std::iota(order.begin(), order.end(), size_t{0});
  const std::string expected = Gather(order, RunInOrder());
  std::mt19937 random(1);
  for (int round = 0; round < 5; ++round) {
    std::ranges::shuffle(order, random);
    EXPECT_TRUE(Gather(order, RunBackwards()) == expected);
  }
}

TEST_F(RunsTest, PartsAddUpToTheWhole) {
  std::vector<size_t> order(kNumRuns);
  std::iota(order.begin(), order.end(), size_t{0});
  const std::string expected = Gather(order, RunInOrder());
  EXPECT_TRUE(Merge({expected}) == expected);
  for (const size_t size : {size_t{1}, size_t{5}, size_t{13}}) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < kNumRuns; begin += size) {
      const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
      parts.push_back(
          Gather({first, first + static_cast<std::ptrdiff_t>(std::min(size, kNumRuns - begin))},
                 RunInOrder()));
    }
    std::ranges::reverse(parts);
    EXPECT_TRUE(Merge(parts) == expected) << size;
    // Sums of sums are the same, too.
    const std::string half = Merge({parts.begin() + 1, parts.end()});
    EXPECT_TRUE(Merge({half, parts[0]}) == expected) << size;
  }
}

TEST_F(RunsTest, SumsAreNearToThoseOfDoubles) {
  MomentAccumulator accumulator(layer_);
  std::vector<double> expected(kColumns * kColumns);
  for (size_t i = 0; i < kNumRuns; ++i) {
    Run run = runs_[i];
    if (run.length > 3) run.x[2 * kColumns + 1] = 0;
    accumulator.Add(std::vector<int64_t>{run.length, kColumns}, run.x.data(),
                    std::vector<int64_t>{run.length, kRows}, run.y.data(), RunInOrder(), {i});
    for (int64_t position = 0; position < run.length; ++position) {
      const float* const x = run.x.data() + position * kColumns;
      for (size_t k = 0; k < expected.size(); ++k) {
        expected[k] += double{x[k / kColumns]} * double{x[k % kColumns]};
      }
    }
  }
  const Moments found = accumulator.Finish(RunInOrder()).Finish();
  for (size_t k = 0; k < expected.size(); ++k) {
    const double scale = std::sqrt(expected[k / kColumns * (kColumns + 1)] *
                                   expected[k % kColumns * (kColumns + 1)]);
    ASSERT_NEAR(found.inputs.data()[k], expected[k], 3e-6 * scale);
  }
}

TEST_F(RunsTest, DamagedBytesAreAnError) {
  const std::string bytes = Gather({0, 1, 2}, RunInOrder());
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const std::string cut = bytes.substr(0, random() % bytes.size());
    EXPECT_THROW(Merge({cut}), Error);
    std::string other = bytes;
    other[random() % other.size()] ^= static_cast<char>(1 + random() % 255);
    try {
      Merge({other});
    } catch (const Error&) {  // or other sums: the checksum of files tells
    }
  }
}

// Two files may each hold what an int64 has room for, but not their sum.
TEST(MomentSums, RefuseMoreTermsThanDigitsHaveRoomFor) {
  const MomentShape shape{.groups = 1, .rows = 0, .columns = 1};
  MomentSums sums(shape, ArrayPlace::kHeap);
  ThreadPool pool(1);
  const auto add = [&](uint64_t num_terms) {
    ByteWriter out;
    for (const uint64_t count : {uint64_t{1}, uint64_t{0}, num_terms}) out.Compact(count);
    out.Sum({});
    DigitSums digits;
    digits.size = 1;
    digits.digits[0][0] = static_cast<int64_t>(num_terms << 11);
    digits.Write(out);
    ByteReader in(out.bytes(), "moments");
    sums.AddFrom(in, pool);
    in.ExpectEnd();
  };
  add(uint64_t{1} << 50);
  add((uint64_t{1} << 50) - 1);
  EXPECT_THROW(add(1), Error);
  EXPECT_EQ(sums.Finish().inputs[0], std::ldexp(0x1p62 - 2048, kDigitBits * kLeastPlace));
}

// More terms than an int32 has room for.
TEST(SumMatrix, SumsOfManyTermsAreTheSame) {
  const MatrixShape shape{.groups = 1, .rows = 2, .columns = 3, .is_symmetric = false};
  std::array<float, SumMatrix::kTile> terms = {1.5F, -2047.9F, 0x1p-20F};
  const auto bytes_of = [&](bool reserves_much) {
    SumMatrix sums(shape, ArrayPlace::kHeap);
    for (int i = 0; i < 50; ++i) {
      sums.Reserve(reserves_much ? kMostNarrowTerms - 1 : 1);
      for (int64_t row = 0; row < 2; ++row) SumMatrix::AddTerms(sums.At(row, 0), terms.data());
      if (i == 20) terms[0] = 3000;
      if (i == 49) terms[0] = 1.5F;
    }
    ByteWriter out;
    sums.Write(out);
    return out.bytes();
  };
  EXPECT_EQ(bytes_of(true), bytes_of(false));
}

}  // namespace
}  // namespace bitpress::finetune
