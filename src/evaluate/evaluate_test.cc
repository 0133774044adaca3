#include "evaluate/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "evaluate/state.h"

namespace bitpress::evaluate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Returns a model that tools/testdata/make_evaluate_models.py made.
fs::path ModelPath(const std::string& name) {
  return fs::path(BITPRESS_SOURCE_DIR) / "tests/data/evaluate" / (name + ".onnx");
}

using Rows = std::vector<std::vector<float>>;

// Samples in memory: one row a sample for each input.
class RowSource : public data::Source {
 public:
  explicit RowSource(std::vector<Rows> inputs, std::vector<int64_t> labels = {})
      : inputs_(std::move(inputs)), labels_(std::move(labels)) {}

  size_t num_samples() const override { return inputs_[0].size(); }
  bool has_labels() const override { return !labels_.empty(); }
  void Rewind() override { position_ = 0; }

  std::optional<data::Batch> Next(size_t max_samples) override {
    const size_t end = std::min(position_ + max_samples, num_samples());
    largest_request_ = std::max(largest_request_, max_samples);
    if (position_ == end) return std::nullopt;
    data::Batch batch;
    batch.num_samples = end - position_;
    for (const Rows& rows : inputs_) {
      Tensor tensor;
      tensor.type = DataType::kFloat;
      tensor.dims = {static_cast<int64_t>(batch.num_samples), static_cast<int64_t>(rows[0].size())};
      for (size_t i = position_; i < end; ++i) {
        const auto* const bytes = reinterpret_cast<const std::byte*>(rows[i].data());
        tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + rows[i].size() * sizeof(float));
      }
      batch.inputs.push_back(std::move(tensor));
    }
    for (size_t i = position_; i < end; ++i) {
      batch.names.push_back("sample" + std::to_string(i));
      if (!labels_.empty()) batch.labels.push_back(labels_[i]);
    }
    position_ = end;
    return batch;
  }

  size_t largest_request() const { return largest_request_; }

 private:
  std::vector<Rows> inputs_;
  std::vector<int64_t> labels_;
  size_t position_ = 0;
  size_t largest_request_ = 0;
};

// The classes with the largest scores are 0, 1, 2, 3 and 2.
const Rows kRows = {{4, 1, 2, 3}, {1, 4, 2, 3}, {1, 2, 4, 3}, {1, 2, 3, 4}, {-1, -2, 9, -3}};

EvaluateOptions Options(const std::string& model, const std::string& reference = "") {
  EvaluateOptions options;
  options.model = ModelPath(model);
  if (!reference.empty()) options.reference = ModelPath(reference);
  options.batch_size = 2;
  options.num_threads = 1;
  return options;
}

void ExpectError(const std::function<void()>& action, ErrorCode code, const std::string& text) {
  try {
    action();
    FAIL() << "nothing was thrown; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Evaluate, AccuracyAgainstLabels) {
  RowSource source({kRows}, {0, 1, 2, 0, 0});
  const EvaluationReport report = Evaluate(Options("identity"), source);
  EXPECT_EQ(report.num_samples, 5u);
  EXPECT_EQ(report.num_labelled, 5u);
  EXPECT_EQ(report.top1, 0.6);
  EXPECT_EQ(report.top5, 1.0);  // four classes
  EXPECT_EQ(report.class_output, "scores");
  EXPECT_EQ(report.agreement, std::nullopt);
  EXPECT_EQ(report.sqnr_db, std::nullopt);
  EXPECT_EQ(report.time_ratio, std::nullopt);
  EXPECT_GT(report.time_ms, 0);
  EXPECT_EQ(report.num_nonfinite_values, 0u);
}

TEST(Evaluator, ForgetsTheSamplesBefore) {
  Evaluator evaluator(Options("swapped", "identity"));
  const std::vector<int64_t> labels = {0, 1, 2, 0, 0};
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 5}, {3, 5}, {0, 5}}) {
    const auto cut = [&](const auto& all) {
      return std::decay_t<decltype(all)>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                         all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    RowSource source({cut(kRows)}, cut(labels));
    size_t num_done = 0;
    const EvaluationState state =
        evaluator.Count(source, [&](std::string_view, size_t done, size_t) { num_done = done; });
    RowSource again({cut(kRows)}, cut(labels));
    EXPECT_TRUE(state == Evaluator(Options("swapped", "identity")).Count(again, {}));
    EXPECT_EQ(state.num_samples, end - begin);
    EXPECT_EQ(num_done, end - begin);
  }
}

TEST(Evaluate, ScaledOutputsAgreeAt20Decibels) {
  RowSource source({kRows});
  const EvaluationReport report = Evaluate(Options("scaled", "identity"), source);
  EXPECT_EQ(report.agreement, 1.0);
  EXPECT_NEAR(report.sqnr_db.value(), 20.0, 1e-4);
  EXPECT_NEAR(report.cosine.value(), 1.0, 1e-6);
  EXPECT_FALSE(report.outputs_identical);
  EXPECT_EQ(report.top1, std::nullopt);
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_EQ(report.outputs[0].name, "scores");
  EXPECT_EQ(report.outputs[0].num_values, 20u);
  EXPECT_GT(report.reference_time_ms.value(), 0);
  EXPECT_GT(report.time_ratio.value(), 0);
}

TEST(Evaluate, RunsOfTheReferenceAreSharedBehindTheTimedBatches) {
  EvaluateOptions options = Options("identity", "identity");
  options.reference_runs = std::make_shared<ReferenceRuns>();
  options.batch_size = 16;
  Rows rows;
  for (size_t i = 0; i < 40; ++i) rows.push_back(kRows[i % kRows.size()]);
  RowSource source({rows});
  EXPECT_TRUE(Evaluate(options, source).outputs_identical);
  // Another reference shows which of its batches run: the first two, of 32 samples.
  options.reference = ModelPath("scaled");
  const EvaluationReport report = Evaluate(options, source);
  constexpr double kTimed = 26 * 30 + 6 * 95, kShared = 6 * 30 + 2 * 95;
  constexpr double kSignal = 0.9 * 0.9 * kTimed + kShared, kNoise = 0.1 * 0.1 * kTimed;
  EXPECT_NEAR(report.sqnr_db.value(), 10 * std::log10(kSignal / kNoise), 1e-4);
  EXPECT_GT(report.time_ratio.value(), 0);
  EXPECT_GT(report.reference_time_ms.value(), 0);
}

TEST(Evaluate, AModelAgainstItselfIsIdentical) {
  RowSource source({kRows}, {0, 1, 2, 3, 2});
  const EvaluationReport report = Evaluate(Options("identity", "identity"), source);
  EXPECT_TRUE(report.outputs_identical);
  EXPECT_EQ(report.sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.agreement, 1.0);
  EXPECT_EQ(report.top1, 1.0);
  EXPECT_EQ(report.reference_top1, 1.0);
}

TEST(Evaluate, SwappedClassesDisagreeOnlyThere) {
  RowSource source({kRows}, {0, 1, 2, 3, 2});
  const EvaluationReport report = Evaluate(Options("swapped", "identity"), source);
  EXPECT_EQ(report.agreement, 0.6);
  EXPECT_EQ(report.top1, 0.6);
  EXPECT_EQ(report.reference_top1, 1.0);
  // Noise: 2 (a - b)^2 of the first two columns, 9 9 1 1 1; signal: 4 x 30 and 95.
  EXPECT_NEAR(report.sqnr_db.value(), 10 * std::log10(215.0 / 42.0), 1e-5);
}

TEST(Evaluate, NanIsCountedAndNeverCorrect) {
  RowSource source({kRows}, {0, 1, 2, 3, 2});
  // The square root keeps the order of the first four rows and makes three values of the last NaN.
  const EvaluationReport report = Evaluate(Options("root", "identity"), source);
  EXPECT_EQ(report.num_nonfinite_values, 3u);
  EXPECT_EQ(report.top1, 0.8);
  EXPECT_EQ(report.top5, 0.8);
  EXPECT_EQ(report.agreement, 0.8);
  EXPECT_EQ(report.sqnr_db, -std::numeric_limits<double>::infinity());
}

TEST(Evaluate, ResultsDoNotDependOnTheBatchSize) {
  RowSource source({kRows}, {0, 1, 2, 3, 1});
  std::vector<nlohmann::ordered_json> reports;
  for (const size_t batch_size : {1u, 2u, 5u, 100u}) {
    EvaluateOptions options = Options("swapped", "identity");
    options.batch_size = batch_size;
    nlohmann::ordered_json json = ToJson(Evaluate(options, source));
    for (const char* key : {"batch_size", "time_ms", "reference_time_ms", "time_ratio", "load_ms",
                            "reference_load_ms", "memory_bytes", "reference_memory_bytes"}) {
      json.erase(key);
    }
    reports.push_back(std::move(json));
  }
  for (const auto& report : reports) EXPECT_EQ(report, reports[0]);
}

TEST(Evaluate, AFixedBatchIsFilledUpAndTheCopiesDoNotCount) {
  RowSource source({kRows}, {0, 1, 2, 3, 0});
  EvaluateOptions options = Options("fixed_batch", "identity");
  options.batch_size = 100;
  const EvaluationReport report = Evaluate(options, source);
  EXPECT_EQ(source.largest_request(), 2u);
  EXPECT_EQ(report.batch_size, 2u);
  EXPECT_EQ(report.num_samples, 5u);
  EXPECT_EQ(report.top1, 0.8);
  EXPECT_TRUE(report.outputs_identical);
  EXPECT_EQ(report.outputs[0].num_values, 20u);
}

TEST(Evaluate, HalfPrecisionOutputsAreNumbersToo) {
  // 1/3 in float16 is off by 2^-12 relative (1365/4096): SQNR near 72 dB.
  RowSource source({Rows{{1.0f / 3, 0, 0, 0}}}, {0});
  const EvaluationReport report = Evaluate(Options("half", "identity"), source);
  EXPECT_NEAR(report.sqnr_db.value(), 20 * std::log10(4096.0), 0.01);
  EXPECT_EQ(report.top1, 1.0);
}

TEST(Evaluate, InputsAndOutputsAreMatchedByName) {
  const Rows other = {{0, 1, 0, 0}, {0, 0, 0, 5}, {1, 2, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  RowSource source({kRows, other}, {0, 1, 2, 3, 2});
  const EvaluationReport report = Evaluate(Options("pair", "pair_reversed"), source);
  EXPECT_TRUE(report.outputs_identical);
  EXPECT_EQ(report.class_output, "scores");  // not the feature map before it
  EXPECT_EQ(report.outputs.size(), 2u);
  EXPECT_EQ(report.top1, 1.0);
}

TEST(Evaluate, AReferenceMayReadSomeOfTheInputs) {
  const Rows other = {{0, 1, 0, 0}, {0, 0, 0, 5}, {1, 2, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  const Rows unused = {{9, 1, 7, 0}, {7, 7, 0, 5}, {1, 2, 7, 0}, {0, 7, 0, 7}, {7, 1, 1, 1}};
  // The reference reads the first and the third input.
  RowSource around({kRows, unused, other}, {0, 1, 2, 3, 2});
  EXPECT_TRUE(Evaluate(Options("triple", "pair"), around).outputs_identical);
  // The reference reads the first two inputs.
  RowSource before({kRows, other, unused}, {0, 1, 2, 3, 2});
  EXPECT_TRUE(Evaluate(Options("triple_last", "pair"), before).outputs_identical);
}

TEST(Evaluate, WithoutClassScoresOnlyClosenessIsGiven) {
  RowSource source({kRows}, {0, 1, 2, 3, 2});
  const EvaluationReport report = Evaluate(Options("features", "features"), source);
  EXPECT_EQ(report.class_output, "");
  EXPECT_EQ(report.top1, std::nullopt);
  EXPECT_EQ(report.agreement, std::nullopt);
  EXPECT_EQ(report.num_labelled, 0u);
  EXPECT_TRUE(report.outputs_identical);
}

TEST(Evaluate, ProbabilitiesAreClassesRatherThanNumbersBeforeThem) {
  RowSource source({kRows}, {0, 1, 2, 3, 2});
  EXPECT_EQ(Evaluate(Options("box"), source).class_output, "classes");
  const EvaluationReport report = Evaluate(Options("box", "box"), source);
  EXPECT_EQ(report.class_output, "classes");
  EXPECT_EQ(report.top1, 1.0);
  EvaluateOptions options = Options("box");
  options.class_output = "box";
  EXPECT_EQ(Evaluate(options, source).class_output, "box");
}

TEST(Evaluate, NumbersThatDifferByHundredsAreNoScoresWithoutLabels) {
  const Rows pitches = {{440, 0, 220, 50}, {110, 441, 0, 1}};
  RowSource source({pitches});
  EXPECT_EQ(Evaluate(Options("identity", "identity"), source).class_output, "");
  EXPECT_EQ(Evaluate(Options("steps", "steps"), source).class_output, "");
  RowSource scores({kRows});
  EXPECT_EQ(Evaluate(Options("steps", "steps"), scores).class_output, "sure");
  RowSource labelled({pitches}, {0, 1});
  EXPECT_EQ(Evaluate(Options("identity"), labelled).class_output, "scores");
  EvaluateOptions options = Options("identity");
  options.class_output = "scores";
  EXPECT_EQ(Evaluate(options, source).class_output, "scores");
}

TEST(Evaluate, FileSizesCountExternalData) {
  RowSource source({kRows});
  const EvaluationReport report = Evaluate(Options("external", "identity"), source);
  EXPECT_EQ(report.file_bytes, fs::file_size(ModelPath("external")) + 32);
  EXPECT_EQ(report.reference_file_bytes, fs::file_size(ModelPath("identity")));
}

TEST(Evaluate, ProgressCountsSamples) {
  RowSource source({kRows});
  std::vector<size_t> steps;
  EvaluateOptions options = Options("identity");
  options.progress = [&](std::string_view, size_t done, size_t total) {
    steps.push_back(done);
    EXPECT_EQ(total, 5u);
  };
  Evaluate(options, source);
  EXPECT_EQ(steps, (std::vector<size_t>{2, 4, 5}));
}

TEST(Evaluate, BadInputIsOneClearError) {
  RowSource source({kRows}, {0, 1, 2, 4, 0});
  ExpectError([&] { Evaluate(Options("identity"), source); }, ErrorCode::kInvalidArgument,
              "'sample3' has class 4, but output 'scores' has the classes 0 to 3");
  ExpectError([&] { Evaluate(Options("missing"), source); }, ErrorCode::kIo, "missing.onnx");
  ExpectError([&] { Evaluate(Options("identity", "missing"), source); }, ErrorCode::kIo,
              "missing.onnx");
  ExpectError([&] { Evaluate(Options("pair", "identity"), source); }, ErrorCode::kInvalidArgument,
              "have 2 and 1 inputs");
  EvaluateOptions options = Options("identity");
  options.class_output = "score";
  ExpectError([&] { Evaluate(options, source); }, ErrorCode::kInvalidArgument,
              "has no output 'score'; it has: scores");
  options = Options("features");
  options.class_output = "features";
  ExpectError([&] { Evaluate(options, source); }, ErrorCode::kInvalidArgument, "[2, 1, 2, 2]");
  options = Options("identity");
  options.batch_size = 0;
  ExpectError([&] { Evaluate(options, source); }, ErrorCode::kInvalidArgument, "batch size");
  RowSource narrow({Rows{{1, 2, 3}}});
  ExpectError([&] { Evaluate(Options("identity"), narrow); }, ErrorCode::kInvalidArgument, "'x'");
  RowSource empty({Rows{}});
  ExpectError([&] { Evaluate(Options("identity"), empty); }, ErrorCode::kInvalidArgument,
              "no samples");
}

TEST(Evaluate, JsonHasNullForWhatIsNotThere) {
  RowSource source({kRows});
  const nlohmann::ordered_json alone = ToJson(Evaluate(Options("identity"), source));
  EXPECT_TRUE(alone["top1"].is_null());
  EXPECT_TRUE(alone["reference"].is_null());
  EXPECT_TRUE(alone["sqnr_db"].is_null());
  EXPECT_EQ(alone["num_samples"], 5);
  const auto same = ToJson(Evaluate(Options("identity", "identity"), source));
  EXPECT_TRUE(same["sqnr_db"].is_null());
  EXPECT_EQ(same["outputs_identical"], true);
  EXPECT_EQ(same["agreement"], 1.0);
  EXPECT_EQ(nlohmann::ordered_json::parse(same.dump()), same);
}

}  // namespace
}  // namespace bitpress::evaluate
