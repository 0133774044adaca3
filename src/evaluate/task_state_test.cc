#include "evaluate/task_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>

#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/test_support.h"
#include "evaluate/expected_f1.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

constexpr size_t kNumSamples = 24;

// A sample with its values, which differs from seed to seed.
struct OwnedSample {
  std::string name;
  std::vector<int64_t> dims;
  Values found, wanted;

  TaskSample Shown() const {
    TaskSample sample;
    sample.name = name;
    sample.outputs.push_back({dims, found, {}});
    sample.reference.push_back({dims, wanted, {}});
    sample.input_height = sample.input_width = 64;
    return sample;
  }
};

// A task, how its meter is made, and one of its samples.
struct TaskCase {
  Task task = Task::kClasses;
  std::function<std::unique_ptr<TaskMeter>()> make;
  std::function<OwnedSample(size_t)> sample;
};

OwnedSample NormalSample(size_t seed, std::vector<int64_t> dims, double noise, double offset = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  OwnedSample sample{
      .name = fmt::format("{}.npy", seed), .dims = std::move(dims), .found = {}, .wanted = {}};
  int64_t size = 1;
  for (const int64_t dim : sample.dims) size *= dim;
  for (int64_t i = 0; i < size; ++i) {
    sample.wanted.push_back(static_cast<float>(offset + normal(random)));
    sample.found.push_back(static_cast<float>(sample.wanted.back() + noise * normal(random)));
  }
  return sample;
}

// Rows of an end-to-end head, two of them of the labels.
OwnedSample BoxesSample(size_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  OwnedSample sample{
      .name = fmt::format("{}.npy", seed), .dims = {4, 6}, .found = {}, .wanted = {}};
  for (Values* const values : {&sample.wanted, &sample.found}) {
    for (size_t i = 0; i < 4; ++i) {
      const double x = 10.0 * static_cast<double>(i) + uniform(random), y = 2 * uniform(random);
      // Scores are few, so that many are equal.
      values->insert(values->end(), {x, y, x + 8, y + 9, std::round(4 * uniform(random)) / 4,
                                     static_cast<double>(i % 2)});
    }
  }
  return sample;
}

class TaskStateTest : public testing::Test {
 protected:
  TaskStateTest() {
    std::ofstream(Path("vocabulary.txt")) << "-\na\nb\nc\n";
    std::ofstream texts(Path("texts.csv")), numbers(Path("numbers.csv")), boxes(Path("boxes.json"));
    texts << "file,text\n";
    numbers << "file,value\n";
    boxes << R"({"categories": [{"id": 0}, {"id": 1}], "images": [)";
    for (size_t i = 0; i < kNumSamples; ++i) {
      if (i % 3 > 0) texts << i << ".npy,ab c\n";
      numbers << i << ".npy," << 1e6 + static_cast<double>(i) / 7 << "\n";
      boxes << fmt::format(R"({}{{"id": {}, "file_name": "{}.npy"}})", i == 0 ? "" : ",", i, i);
    }
    boxes << R"(], "annotations": [)";
    for (size_t i = 0; i < kNumSamples; ++i) {
      boxes << fmt::format(R"({}{{"image_id": {}, "category_id": {}, "bbox": [0, 0, 8, 10]}})",
                           i == 0 ? "" : ",", i, i % 2);
    }
    boxes << "]}";
  }

  std::string Path(const std::string& name) { return PathText(folder_.path() / name); }

  std::vector<TaskCase> Cases() {
    const auto normal = [](std::vector<int64_t> dims, double noise, double offset = 0) {
      return [=](size_t seed) { return NormalSample(seed, dims, noise, offset); };
    };
    const auto made = [](const auto& make, const std::string& task) {
      return [make, spec = ParseTask(task)] { return make(spec, size_t{0}); };
    };
    const auto text = [](const TaskSpec& spec, size_t output) {
      return MakeTextMeter(spec, output);
    };
    const auto embedding = [](const TaskSpec& spec, size_t output) {
      return MakeEmbeddingMeter(spec, output);
    };
    return {
        {Task::kClasses, [] { return MakeClassMeter(0); }, normal({5}, 0.5)},
        {Task::kDetection,
         [file = Path("boxes.json")] {
           return MakeDetectionMeter(ParseTask("detection:labels=" + file), "end2end");
         },
         BoxesSample},
        {Task::kSegmentation, made(MakeSegmentationMeter, "segmentation"), normal({3, 4, 4}, 0.5)},
        {Task::kSegmentation, made(MakeSegmentationMeter, "segmentation"), normal({1, 4, 4}, 0.5)},
        {Task::kEmbedding, made(embedding, "embedding:k=3"), normal({6}, 0.5)},
        {Task::kEmbedding, made(embedding, "embedding:pool=none"), normal({3, 6}, 0.5)},
        {Task::kText, made(text, "text"), normal({9, 4}, 0.5)},
        {Task::kText,
         made(text, fmt::format("text:vocabulary={},labels={}", Path("vocabulary.txt"),
                                Path("texts.csv"))),
         normal({9, 4}, 0.5)},
        {Task::kRegression, made(MakeRegressionMeter, "regression:labels=" + Path("numbers.csv")),
         normal({1}, 0.1, 1e6)}};
  }

  static TaskState StateOf(const TaskCase& of, const std::vector<size_t>& seeds) {
    const std::unique_ptr<TaskMeter> meter = of.make();
    for (const size_t seed : seeds) {
      const OwnedSample sample = of.sample(seed);
      meter->Add(sample.Shown());
    }
    ByteWriter writer;
    meter->Write(writer);
    return {.task = of.task, .settings = "", .output = "y", .counts = std::move(writer.bytes())};
  }

 private:
  ScratchFolder folder_;
};

std::vector<size_t> AllSeeds() {
  std::vector<size_t> seeds(kNumSamples);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = i;
  return seeds;
}

TEST_F(TaskStateTest, IsTheSameHoweverSamplesAreDivided) {
  std::mt19937_64 random(5);
  for (const TaskCase& of : Cases()) {
    std::vector<size_t> seeds = AllSeeds();
    const TaskState whole = StateOf(of, seeds);
    const TaskReport wanted = whole.Report();
    EXPECT_EQ(wanted.num_samples, kNumSamples);
    EXPECT_TRUE(wanted.loss.has_value());
    for (int trial = 0; trial < 5; ++trial) {
      std::ranges::shuffle(seeds, random);
      std::vector<TaskState> parts;
      for (size_t i = 0; i < seeds.size(); i += 4) {
        parts.push_back(StateOf(of, {seeds.begin() + static_cast<ptrdiff_t>(i),
                                     seeds.begin() + static_cast<ptrdiff_t>(i) + 4}));
      }
      for (size_t i = 1; i < parts.size(); ++i) parts[0].Merge(parts[i]);
      EXPECT_EQ(parts[0], whole) << wanted.task;
    }
  }
}

// A meter that is read back has the figures of the one that ran.
TEST_F(TaskStateTest, HasTheReportOfItsMeter) {
  for (const TaskCase& of : Cases()) {
    const std::unique_ptr<TaskMeter> meter = of.make();
    for (const size_t seed : AllSeeds()) {
      const OwnedSample sample = of.sample(seed);
      meter->Add(sample.Shown());
    }
    const TaskReport wanted = meter->Result(), found = StateOf(of, AllSeeds()).Report();
    EXPECT_EQ(found.loss, wanted.loss);
    EXPECT_EQ(found.how, wanted.how);
    ASSERT_EQ(found.figures.size(), wanted.figures.size());
    for (size_t i = 0; i < found.figures.size(); ++i) {
      EXPECT_EQ(found.figures[i].name, wanted.figures[i].name);
      EXPECT_EQ(found.figures[i].value, wanted.figures[i].value) << found.figures[i].name;
      EXPECT_EQ(found.figures[i].reference, wanted.figures[i].reference) << found.figures[i].name;
    }
  }
}

TEST_F(TaskStateTest, AddsOnlyWhatBelongsTogether) {
  const TaskCase of = Cases()[1];
  const auto message = [&](const auto& change) {
    TaskState state = StateOf(of, {1}), other = StateOf(of, {2});
    change(other);
    return ExpectError(ErrorCode::kInvalidArgument, [&] { state.Merge(other); });
  };
  EXPECT_THAT(message([](auto& other) { other.task = Task::kText; }),
              HasSubstr("different tasks: detection and text"));
  EXPECT_THAT(message([](auto& other) { other.settings = "iou=0.6"; }),
              HasSubstr("different tasks: detection and detection:iou=0.6"));
  EXPECT_THAT(message([](auto& other) { ++other.files; }),
              HasSubstr("files with different contents"));
  EXPECT_THAT(message([](auto& other) { other.output = "z"; }), HasSubstr("'y' and 'z'; name one"));
  const TaskCase layout{Task::kDetection, [] { return MakeDetectionMeter({}, "yolo5"); },
                        [](size_t seed) {
                          return NormalSample(seed, {4, 6}, 0);
                        }};
  EXPECT_THAT(message([&](auto& other) { other = StateOf(layout, {1}); }),
              HasSubstr("same settings of the task"));
  EXPECT_EQ(SettingsText(ParseTask("detection:labels=/a/b.json,score=0.4")), "labels,score=0.4");
}

TEST_F(TaskStateTest, KnowsFilesByTheirContent) {
  const auto content = [](const std::string& task) { return FilesContent(ParseTask(task)); };
  const std::string labels = Path("texts.csv"), vocabulary = Path("vocabulary.txt");
  EXPECT_EQ(content("text:blank=0"), 0);
  const uint64_t of_labels = content("text:labels=" + labels);
  EXPECT_NE(of_labels, 0);
  EXPECT_NE(content("text:labels=" + labels + ",vocabulary=" + vocabulary), of_labels);
  std::filesystem::copy_file(labels, Path("copy.csv"));
  EXPECT_EQ(content("text:blank=1,labels=" + Path("copy.csv")), of_labels);
  std::ofstream(Path("copy.csv"), std::ios::app) << "more.npy,a\n";
  EXPECT_NE(content("text:labels=" + Path("copy.csv")), of_labels);
}

// Returns the bytes of a detection meter with these counts, without labels.
std::string DetectionBytes(const std::vector<uint64_t>& counts, size_t num_expected) {
  ByteWriter writer;
  writer.Text("end2end");
  writer.Number(std::bit_cast<uint64_t>(0.25));
  for (const uint64_t count : counts) writer.Compact(count);
  OrderlessSum().Write(writer);
  writer.Number(uint8_t{1});
  writer.Number(uint8_t{0});
  ExpectedF1 expected;
  for (size_t i = 0; i < num_expected; ++i) expected.Add(ExpectedBoxes{});
  expected.Write(writer);
  for (int i = 0; i < 4; ++i) writer.Compact(0);  // images of boxes and of masks, of both models
  return std::move(writer.bytes());
}

TEST_F(TaskStateTest, RefusesCountsOfBoxesThatContradictEachOther) {
  const auto report = [](const std::vector<uint64_t>& counts, size_t num_expected) {
    return TaskState{Task::kDetection, "", "y", DetectionBytes(counts, num_expected)}.Report();
  };
  // Samples, boxes of the model and of the float model, pairs, pairs of masks.
  EXPECT_TRUE(report({2, 30, 31, 30, 0}, 2).strict_loss);
  EXPECT_FALSE(report({2, 30, 31, 30, 0}, 1).strict_loss);
  const auto message = [&](const std::vector<uint64_t>& counts, size_t num_expected) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { report(counts, num_expected); });
  };
  EXPECT_THAT(message({2, 30, 31, 30, 0}, 3), HasSubstr("more samples have expected boxes"));
  EXPECT_THAT(message({2, 30, 31, 31, 0}, 2), HasSubstr("more pairs than boxes"));
  EXPECT_THAT(message({2, 30, 31, 30, 31}, 2), HasSubstr("more pairs than boxes"));
}

TEST_F(TaskStateTest, LeavesOutWholeSamples) {
  std::ofstream(Path("sized.json"))
      << R"({"categories": [{"id": 0}], "annotations": [], "images": )"
      << R"([{"id": 1, "file_name": "1.npy", "width": 32, "height": 32}]})";
  const auto meter =
      MakeDetectionMeter(ParseTask("detection:labels=" + Path("sized.json")), "end2end");
  const OwnedSample wrong = BoxesSample(1), right = BoxesSample(2);
  meter->Add(right.Shown());
  ByteWriter before, after;
  meter->Write(before);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { meter->Add(wrong.Shown()); }),
              HasSubstr("the labels are for 32x32 pixels"));
  meter->Write(after);
  EXPECT_EQ(after.bytes(), before.bytes());
}

TEST_F(TaskStateTest, RefusesEmbeddingsWithoutNeighboursOrCosines) {
  const auto message = [](uint64_t k, double least_cosine) {
    ByteWriter writer;
    for (const uint64_t count : {k, uint64_t{1}, uint64_t{1}}) writer.Compact(count);
    OrderlessSum().Write(writer);
    writer.Number(std::bit_cast<uint64_t>(least_cosine));
    writer.Compact(0);
    return ExpectError(ErrorCode::kInvalidArgument, [&] {
      TaskState{Task::kEmbedding, "", "y", writer.bytes()}.Report();
    });
  };
  EXPECT_THAT(message(0, 1), HasSubstr("no neighbours"));
  EXPECT_THAT(message(10, NAN), HasSubstr("the least cosine is not finite"));
}

TEST_F(TaskStateTest, RefusesWhatIsDamaged) {
  for (const TaskCase& of : Cases()) {
    const TaskState state = StateOf(of, {1, 2, 3});
    ByteWriter writer;
    state.Write(writer);
    const std::string bytes = writer.bytes();
    ByteReader whole(bytes, "file");
    EXPECT_EQ(TaskState::Read(whole), state);
    // Other bytes are other figures or one clear error.
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const std::string& other :
           {bytes.substr(0, i),
            std::string(bytes).replace(i, 1, 1, static_cast<char>(bytes[i] ^ 0xFF))}) {
        try {
          ByteReader reader(other, "file");
          TaskState::Read(reader).Report();
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::evaluate
