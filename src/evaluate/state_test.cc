#include "evaluate/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using testing::HasSubstr;

std::vector<double> Normal(size_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

// A state of one sample, which differs from seed to seed.
EvaluationState OneSample(uint64_t seed) {
  std::mt19937_64 random(seed);
  EvaluationState state;
  state.model = {"model.onnx", 1, 100};
  state.reference = {"float.onnx", 2, 400};
  state.class_output = "scores";
  state.output_names = {"scores", "boxes"};
  state.num_samples = 1;
  state.num_nonfinite = seed % 3;
  state.ranks.Add(random() % 7);
  state.reference_ranks.Add(random() % 7);
  state.agreements.Add(random() % 2);
  state.expected.Add(Normal(5, random), Normal(5, random));
  for (int i = 0; i < 2; ++i) {
    state.outputs.emplace_back().Add(Normal(5, random), Normal(5, random));
  }
  state.all.Add(Normal(10, random), Normal(10, random));
  Tensor ids{.type = DataType::kInt64, .dims = {1, 4}, .bytes = {}};
  ids.bytes.resize(4 * sizeof(int64_t));
  for (int64_t& id : ids.values<int64_t>()) id = static_cast<int64_t>(random() % 6);
  Tensor logits[2];
  for (Tensor& of_model : logits) {
    of_model = {.type = DataType::kFloat, .dims = {1, 4, 6}, .bytes = {}};
    of_model.bytes.resize(24 * sizeof(float));
    const std::vector<double> values = Normal(24, random);
    std::copy(values.begin(), values.end(), of_model.values<float>().begin());
  }
  LanguageMeter meter(1);
  meter.Add(ids, logits[0], &logits[1], 1);
  state.language = meter.sums();
  const std::unique_ptr<TaskMeter> task = MakeRegressionMeter({}, 0);
  const std::vector<double> found = Normal(1, random), wanted = Normal(1, random);
  TaskSample sample;
  sample.outputs.push_back({{1}, found, {}});
  sample.reference.push_back({{1}, wanted, {}});
  task->Add(sample);
  ByteWriter counts;
  task->Write(counts);
  state.task = {Task::kRegression, "", "boxes", std::move(counts.bytes())};
  return state;
}

TEST(EvaluationState, IsTheSameHoweverSamplesAreDivided) {
  std::vector<EvaluationState> samples;
  for (uint64_t seed = 0; seed < 60; ++seed) samples.push_back(OneSample(seed));
  EvaluationState whole = samples[0];
  for (size_t i = 1; i < samples.size(); ++i) whole.Merge(samples[i]);
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<EvaluationState> parts = samples;
    while (parts.size() > 1) {
      std::shuffle(parts.begin(), parts.end(), random);
      parts[0].Merge(parts.back());
      parts.pop_back();
    }
    EXPECT_EQ(parts[0], whole);
    EXPECT_EQ(ToBytes(parts[0]), ToBytes(whole));
  }
}

TEST(EvaluationState, ComesBackFromItsFile) {
  EvaluationState state = OneSample(3);
  state.Merge(OneSample(4));
  EXPECT_EQ(EvaluationStateFromBytes(ToBytes(state)), state);
  state.language.reset();
  EXPECT_EQ(EvaluationStateFromBytes(ToBytes(state)), state);
  state.task.reset();
  state.reference = {};
  state.outputs.clear();
  EXPECT_EQ(EvaluationStateFromBytes(ToBytes(state)), state);
}

TEST(EvaluationState, ReportsWhatItCounted) {
  EvaluationState state = OneSample(3);
  const EvaluationReport report = ReportOf(state);
  EXPECT_FALSE(report.has_times);
  EXPECT_EQ(report.num_samples, 1u);
  EXPECT_EQ(report.sqnr_db, state.all.SqnrDb());
  EXPECT_EQ(report.outputs.size(), 2u);
  EXPECT_EQ(report.language->num_tokens, 3u);
  EXPECT_EQ(report.reference_file_bytes, 400u);
}

TEST(EvaluationState, AddsOnlyWhatBelongsTogether) {
  const auto message = [](const auto& change) {
    EvaluationState sum = OneSample(1);
    EvaluationState other = OneSample(2);
    change(other);
    return ExpectError(ErrorCode::kInvalidArgument, [&] { sum.Merge(other); });
  };
  EXPECT_THAT(message([](auto& other) { other.model.fingerprint = 7; }),
              HasSubstr("different models: 'model.onnx' and 'model.onnx'"));
  EXPECT_THAT(message([](auto& other) { other.reference = {}; }),
              HasSubstr("different references: 'float.onnx' and none"));
  EXPECT_THAT(message([](auto& other) { other.class_output = "boxes"; }), HasSubstr("options"));
  EXPECT_THAT(message([](auto& other) { other.language.reset(); }), HasSubstr("options"));
  EXPECT_THAT(message([](auto& other) { other.task.reset(); }), HasSubstr("options"));
  EXPECT_THAT(message([](auto& other) { other.task->output = "scores"; }), HasSubstr("name one"));
  EvaluationState sum = OneSample(1);
  EvaluationState other = OneSample(2);
  other.processor = processors::ProcessorKind::kSaturating;
  sum.Merge(other);
  sum.depends_on_processor = true;
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { sum.Merge(other); }),
              HasSubstr("--processor"));
}

TEST(EvaluationState, RefusesMoreThanItCanCount) {
  const EvaluationState other = OneSample(2);
  for (const bool has_many_tokens : {false, true}) {
    EvaluationState state = OneSample(1);
    LanguageSums& language = *state.language;
    if (has_many_tokens) {
      language.num_compared = language.num_agreeing = 0;
      language.divergence_bins.clear();
    }
    uint64_t& count = has_many_tokens ? language.num_tokens : state.num_samples;
    count = kMostCounted;
    EXPECT_EQ(EvaluationStateFromBytes(ToBytes(state)), state);
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { state.Merge(other); }),
                HasSubstr("too many"));
    ++count;
    ExpectError(ErrorCode::kInvalidArgument, [&] { EvaluationStateFromBytes(ToBytes(state)); });
  }
}

TEST(EvaluationStateFromBytes, RefusesWhatIsDamaged) {
  const std::string bytes = ToBytes(OneSample(6));
  // With a right checksum, other bytes are other figures or one clear error.
  const size_t begin = kEvaluationFile.magic.size() + sizeof(uint32_t);
  size_t num_refused = 0;
  for (size_t i = begin; i + sizeof(uint32_t) < bytes.size(); ++i) {
    ByteWriter writer;
    writer.bytes() = bytes.substr(0, bytes.size() - sizeof(uint32_t));
    writer.bytes()[i] = static_cast<char>(writer.bytes()[i] ^ 0xFF);
    const std::string other = EndFile(std::move(writer));
    try {
      ReportOf(EvaluationStateFromBytes(other));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 10u);
}

}  // namespace
}  // namespace bitpress::evaluate
