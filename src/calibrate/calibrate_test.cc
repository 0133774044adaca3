#include "calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "calibrate/calibration_file.h"
#include "calibrate/collector.h"
#include "calibrate/sample_runs.h"
#include "kernels/half.h"
#include "runtime/session.h"

namespace bitpress::calibrate {
namespace {

using testing::HasSubstr;

std::vector<float> RandomNormal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// A source of samples in memory, [3, 8, 8] floats each.
class Noise : public data::Source {
 public:
  Noise(size_t begin, size_t end) : begin_(begin), end_(end), next_(begin) {}
  size_t num_samples() const override { return end_ - begin_; }
  bool has_labels() const override { return false; }
  std::optional<data::Batch> Next(size_t max_samples) override {
    if (next_ == end_) return std::nullopt;
    data::Batch batch;
    std::vector<float> values;
    for (; batch.num_samples < max_samples && next_ < end_; ++batch.num_samples, ++next_) {
      const std::vector<float> sample = RandomNormal(3 * 8 * 8, static_cast<uint32_t>(next_));
      values.insert(values.end(), sample.begin(), sample.end());
    }
    batch.inputs.push_back(
        MakeTensor(DataType::kFloat, {static_cast<int64_t>(batch.num_samples), 3, 8, 8}, values));
    return batch;
  }
  void Rewind() override { next_ = begin_; }

 private:
  size_t begin_, end_, next_;
};

graph::Model TestModel() {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "clean_up.onnx");
  model.InferShapes();
  return model;
}

CalibrationTable RunNoise(size_t begin, size_t end, const CalibrateOptions& options = {}) {
  const graph::Model model = TestModel();
  Noise noise(begin, end);
  return Calibrate(model, "test", FloatActivations(model), noise, options).table;
}

// An input that leaves the batch free, and a scalar, take what the others fix.
TEST(SampleRuns, HaveTheBatchThatOneInputFixes) {
  const std::vector<runtime::ValueDescription> inputs{{"x", DataType::kFloat, {4, 3, 8, 8}},
                                                      {"mask", DataType::kFloat, {-1, 8}},
                                                      {"step", DataType::kInt64, {}}};
  EXPECT_EQ(FixedRows(inputs), 4u);
  Noise noise(0, 10);
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
  const graph::Model model = TestModel();
  const CalibrationTable table = RunNoise(0, 5);
  EXPECT_EQ(table.num_samples, 5u);
  TensorStatistics input, output;
  runtime::Session session = runtime::Session::FromMemory(model.Serialize());
  Noise noise(0, 5);
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
  for (const size_t batch_size : {1u, 7u, 50u}) {
    for (const size_t num_threads : {1u, 2u, 3u}) {
      EXPECT_EQ(ToBytes(RunNoise(0, 50, {.batch_size = batch_size, .num_threads = num_threads})),
                expected);
    }
  }
  CalibrationTable shards = RunNoise(31, 50);
  shards.Merge(RunNoise(0, 9));
  shards.Merge(RunNoise(9, 31));
  EXPECT_EQ(ToBytes(shards), expected);
}

TEST(Calibrate, WatchesOnlyWhatIsAskedFor) {
  const graph::Model model = TestModel();
  Noise noise(0, 2);
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
  const graph::Model model = TestModel();
  Noise noise(0, 2);
  const std::vector<std::string> values = {"yy"};
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [&] { Calibrate(model, "test", values, noise); }),
      HasSubstr("'yy' is no float value"));
  Noise nothing(0, 0);
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
    Collector collector(2, 3);
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
