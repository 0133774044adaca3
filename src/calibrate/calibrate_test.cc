#include "calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_support.h"
#include "calibrate/calibration_file.h"
#include "calibrate/collector.h"
#include "calibrate/sample_runs.h"
#include "data/test_samples.h"
#include "kernels/half.h"
#include "runtime/session.h"

namespace bitpress::calibrate {
namespace {

using testing::HasSubstr;

// Returns samples [begin, end) for CleanUpModel.
data::RandomSamples Noise(size_t begin, size_t end) { return {{3, 8, 8}, begin, end}; }

graph::Model CleanUpModel() {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "clean_up.onnx");
  model.InferShapes();
  return model;
}

CalibrationTable RunNoise(size_t begin, size_t end, const CalibrateOptions& options = {}) {
  const graph::Model model = CleanUpModel();
  data::RandomSamples noise = Noise(begin, end);
  return Calibrate(model, "test", FloatActivations(model), noise, options).table;
}

// An input that leaves the batch free, and a scalar, take what the others fix.
TEST(SampleRuns, HaveTheBatchThatOneInputFixes) {
  const std::vector<runtime::ValueDescription> inputs{{"x", DataType::kFloat, {4, 3, 8, 8}},
                                                      {"mask", DataType::kFloat, {-1, 8}},
                                                      {"step", DataType::kInt64, {}}};
  EXPECT_EQ(FixedRows(inputs), 4u);
  data::RandomSamples noise = Noise(0, 10);
  std::vector<size_t> runs;
  const SampleCounts counts =
      RunSamples(noise, inputs, /*at_once=*/8,
                 [&](const std::vector<Tensor>& tensors, size_t num_samples) {
                   EXPECT_EQ(tensors[0].dims[0], 4);
                   runs.push_back(num_samples);
                 },
                 "test", {});
  EXPECT_THAT(runs, testing::ElementsAre(4, 4));
  EXPECT_EQ(counts.num_left_out, 2u);
}

TEST(Calibrate, CountsWhatTheSessionComputes) {
  const graph::Model model = CleanUpModel();
  const CalibrationTable table = RunNoise(0, 5);
  EXPECT_EQ(table.num_samples, 5u);
  TensorStatistics input, output;
  runtime::Session session = runtime::Session::FromMemory(model.Serialize());
  data::RandomSamples noise = Noise(0, 5);
  while (const auto batch = noise.Next(1)) {
    for (const Tensor& tensor : batch->inputs) input.Add(tensor.values<float>());
    for (const Tensor& tensor : session.Run(batch->inputs)) output.Add(tensor.values<float>());
  }
  const TensorStatistics& found = table.tensors.at(model.InputNames()[0]);
  EXPECT_EQ(found.num_elements(), 5u * 3 * 8 * 8);
  EXPECT_EQ(found.Sum(), input.Sum());
  EXPECT_EQ(found.max(), input.max());
  EXPECT_EQ(found.num_samples(), 5u);
  EXPECT_LT(found.MeanOfMaxima(), found.max());
  const TensorStatistics& last = table.tensors.at(model.OutputNames()[0]);
  EXPECT_EQ(last.num_elements(), output.num_elements());
  // Observers keep ONNX Runtime from fusing some operators.
  EXPECT_NEAR(last.SumOfSquares(), output.SumOfSquares(), 1e-5 * output.SumOfSquares());
}

TEST(Calibrate, GivesTheSameBytesHoweverItIsRun) {
  const std::string expected = ToBytes(RunNoise(0, 50, {.batch_size = 1, .num_threads = 1}));
  for (const auto& [batch_size, num_threads] : {std::pair<size_t, size_t>{1, 3}, {7, 1}, {50, 2}}) {
    EXPECT_EQ(ToBytes(RunNoise(0, 50, {.batch_size = batch_size, .num_threads = num_threads})),
              expected);
  }
  CalibrationTable shards = RunNoise(31, 50);
  shards.Merge(RunNoise(0, 9));
  shards.Merge(RunNoise(9, 31));
  EXPECT_EQ(ToBytes(shards), expected);
}

// A model that stays loaded, whole or in pieces, counts as one that is loaded anew.
void ExpectForgetsTheSamplesBefore(uint64_t most_piece_bytes) {
  const graph::Model model = CleanUpModel();
  CalibrateOptions options{.num_threads = 1, .most_piece_bytes = most_piece_bytes};
  options.axes[model.InputNames()[0]] = 1;
  const std::string first = ToBytes(RunNoise(0, 9, options));
  const std::string second = ToBytes(RunNoise(9, 12, options));
  for (const uint64_t most_kept_bytes : {uint64_t{0}, uint64_t{1} << 30}) {
    options.most_kept_bytes = most_kept_bytes;
    Calibrator calibrator(model, "test", FloatActivations(model), options);
    const auto count = [&](size_t begin, size_t end, const ProgressSink& progress = {}) {
      data::RandomSamples noise = Noise(begin, end);
      return ToBytes(calibrator.Count(noise, progress).table);
    };
    EXPECT_EQ(count(0, 9), first);
    EXPECT_EQ(count(9, 12), second);
    data::RandomSamples nothing = Noise(0, 0);
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { calibrator.Count(nothing, {}); }),
                HasSubstr("no samples"));
    size_t last = 0;
    const auto progress = [&](std::string_view, size_t done, size_t total) {
      EXPECT_GE(done, last);
      EXPECT_EQ(total, 9u);
      last = done;
    };
    EXPECT_EQ(count(0, 9, progress), first);
    EXPECT_EQ(last, 9u);
  }
}

TEST(Calibrator, ForgetsTheSamplesBefore) { ExpectForgetsTheSamplesBefore(kMostPieceBytes); }
TEST(WholeCalibrator, ForgetsTheSamplesBeforeInPieces) { ExpectForgetsTheSamplesBefore(1); }

// Samples [begin, end) of `kinds`, of [4] floats below 8. Those of kind 'u' cannot be read, those
// of kind 'w' have an element that no row of fragile.onnx is for, and 's' are skipped.
class Fragile : public data::Source {
 public:
  Fragile(std::string kinds, size_t begin, size_t end)
      : kinds_(std::move(kinds)), begin_(begin), end_(end), next_(begin) {}
  size_t num_samples() const override { return end_ - begin_; }
  bool has_labels() const override { return false; }
  std::optional<data::Batch> Next(size_t max_samples) override {
    if (next_ == end_) return std::nullopt;
    data::Batch batch;
    std::vector<float> values;
    for (; batch.num_samples < max_samples && next_ < end_; ++next_) {
      if (kinds_[next_] == 's') continue;
      if (kinds_[next_] == 'u') {
        batch.failed.push_back({std::to_string(next_), "it is unreadable"});
        continue;
      }
      const float x = 0.1f + static_cast<float>(next_ % 7);
      values.insert(values.end(), {kinds_[next_] == 'w' ? 9.0f : x, -x, x / 2, 1});
      batch.names.push_back(std::to_string(next_));
      ++batch.num_samples;
    }
    batch.inputs.push_back(
        MakeTensor(DataType::kFloat, {static_cast<int64_t>(batch.num_samples), 4}, values));
    return batch;
  }
  void Rewind() override { next_ = begin_; }

 private:
  std::string kinds_;
  size_t begin_, end_, next_;
};

// A sample that fails has been counted by the nodes, and pieces, before the one that fails.
void ExpectLeavesOutWhatFails(uint64_t most_piece_bytes) {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "fragile.onnx");
  model.InferShapes();
  const std::string kinds = "..w...u..www....uu..w";
  const auto count = [&](const std::string& of, size_t begin, size_t end, size_t most_failures) {
    CalibrateOptions options{.num_threads = 1, .most_piece_bytes = most_piece_bytes};
    options.axes["x"] = 1;
    options.most_failures = most_failures;
    Fragile source(of, begin, end);
    return Calibrator(model, "test", FloatActivations(model), options).Count(source, {}).table;
  };
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime, [&] { count(kinds, 0, 3, 0); }),
              testing::AllOf(HasSubstr("2: "), HasSubstr("Gather")));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { count(kinds, 0, kinds.size(), 7); }),
              HasSubstr("8 samples failed, but at most 7 may: '10', '11'"));

  const CalibrationTable all = count(kinds, 0, kinds.size(), 8);
  EXPECT_EQ(all.num_samples, kinds.size() - 8);
  EXPECT_THAT(all.left_out, testing::ElementsAre("10", "11", "16", "17", "2", "20", "6", "9"));
  EXPECT_EQ(FromBytes(ToBytes(all)), all);

  // The others are counted as if those were not there.
  std::string skipped = kinds;
  for (char& kind : skipped) kind = kind == '.' ? '.' : 's';
  CalibrationTable expected = count(skipped, 0, kinds.size(), 0);
  EXPECT_TRUE(expected.left_out.empty());
  expected.left_out = all.left_out;
  EXPECT_EQ(expected, all);

  // Parts add up, also one of which nothing is left.
  CalibrationTable sum = count(kinds, 9, 12, 8);
  EXPECT_EQ(sum.num_samples, 0u);
  sum.Merge(count(kinds, 12, kinds.size(), 8));
  sum.Merge(count(kinds, 0, 9, 8));
  EXPECT_EQ(ToBytes(sum), ToBytes(all));
}

TEST(Calibrator, LeavesOutWhatFails) { ExpectLeavesOutWhatFails(kMostPieceBytes); }
TEST(WholeCalibrator, LeavesOutWhatFailsInPieces) { ExpectLeavesOutWhatFails(1); }

TEST(Calibrate, WatchesOnlyWhatIsAskedFor) {
  const graph::Model model = CleanUpModel();
  data::RandomSamples noise = Noise(0, 2);
  const std::vector<std::string> values = {model.OutputNames()[0]};
  CalibrateOptions options;
  options.axes[values[0]] = -1;
  const CalibrationTable table = Calibrate(model, "test", values, noise, options).table;
  ASSERT_EQ(table.tensors.size(), 1u);
  const auto& axis = table.tensors.at(values[0]).axis_statistics();
  ASSERT_TRUE(axis.has_value());
  EXPECT_FALSE(axis->slices.empty());
}

TEST(Calibrate, RefusesWhatItCannotWatch) {
  const graph::Model model = CleanUpModel();
  data::RandomSamples noise = Noise(0, 2);
  const std::vector<std::string> values = {"yy"};
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [&] { Calibrate(model, "test", values, noise); }),
      HasSubstr("'yy' is no float value"));
  data::RandomSamples nothing = Noise(0, 0);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { Calibrate(model, "test", FloatActivations(model), nothing); }),
              HasSubstr("no samples"));
}

// A tensor cut among tasks, as floats and as halves, counts as a whole.
TEST(Collector, CountsPartsAsAWhole) {
  const runtime::ParallelTasks backwards = [](size_t count,
                                              const std::function<void(size_t)>& task) {
    for (size_t i = count; i > 0; --i) task(i - 1);
  };
  for (const size_t count : {0u, 1u, 40000u, 100003u}) {
    const std::vector<float> values = RandomNormal(count, 9);
    std::vector<uint16_t> halves(count);
    kernels::FloatToHalf(values, halves.data());
    std::vector<float> widened(count);
    kernels::HalfToFloat(halves, widened.data());
    const std::vector<int64_t> dims = {static_cast<int64_t>(count)};
    Collector collector(2, 3, /*adds_sums=*/true);
    collector.Observe({0, DataType::kFloat, dims, values.data()}, backwards);
    collector.Observe({1, DataType::kFloat16, dims, halves.data()}, backwards);
    TensorStatistics expected, expected_halves;
    expected.Add(values);
    expected_halves.Add(widened);
    EXPECT_EQ(collector.statistics(0), expected);
    EXPECT_EQ(collector.statistics(1), expected_halves);
    collector.EndSample();
    collector.EndSample();  // nothing came
    EXPECT_EQ(collector.statistics(0).num_samples(), count == 0 ? 0u : 1u);
  }
}

}  // namespace
}  // namespace bitpress::calibrate
