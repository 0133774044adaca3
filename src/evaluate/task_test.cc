// Measures of tasks, against figures that were worked out by hand.
#include "evaluate/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/test_support.h"
#include "evaluate/box_masks.h"
#include "evaluate/detection.h"
#include "evaluate/run_meter.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

// One sample whose only output has these values.
TaskSample SampleOf(const Values& found, const Values& reference, std::vector<int64_t> dims) {
  TaskSample sample;
  sample.outputs.push_back({dims, found, {}});
  sample.reference.push_back({std::move(dims), reference, {}});
  return sample;
}

double FigureOf(const TaskReport& report, const std::string& name) {
  for (const TaskFigure& figure : report.figures) {
    if (figure.name == name) return figure.value;
  }
  ADD_FAILURE() << "there is no figure " << name;
  return NAN;
}

TEST(Task, IsReadWithItsSettings) {
  EXPECT_EQ(ParseTask("auto").task, Task::kFind);
  const TaskSpec spec = ParseTask("detection:layout=yolo8,score=0.4");
  EXPECT_EQ(spec.task, Task::kDetection);
  EXPECT_EQ(spec.Text("layout"), "yolo8");
  EXPECT_EQ(spec.Number("score", 0), 0.4);
  EXPECT_EQ(spec.Number("iou", 0.5), 0.5);
  for (const auto& [text, message] :
       std::vector<std::pair<std::string, std::string>>{{"detektion", "did you mean 'detection'"},
                                                        {"embedding:kk=3", "no setting 'kk'"},
                                                        {"none:k=3", "it has no settings"}}) {
    try {
      ParseTask(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(Task, OfRegressionComparesWithTheSpread) {
  const auto meter = MakeRegressionMeter(ParseTask("regression"), 0);
  // The spread of 0, 2, 4 around 2 is 8, the errors are 1, 0 and 1.
  const Values wanted = {0, 2, 4}, found = {1, 2, 3};
  for (size_t i = 0; i < 3; ++i) {
    const Values a = {found[i]}, b = {wanted[i]};
    meter->Add(SampleOf(a, b, {1}));
  }
  const TaskReport report = meter->Result();
  EXPECT_DOUBLE_EQ(FigureOf(report, "R2 against the float model"), 1 - 2.0 / 8);
  EXPECT_DOUBLE_EQ(FigureOf(report, "error over the spread"), 0.5);
  EXPECT_DOUBLE_EQ(*report.loss, 0.25);
}

TEST(Task, OfRegressionCountsLabelsAndClasses) {
  const ScratchFolder folder;
  const std::string labels = PathText(folder.path() / "labels.csv");
  std::ofstream(labels) << "file,value\na.npy,1\nb.npy,3\n";
  const auto meter = MakeRegressionMeter(ParseTask("regression:labels=" + labels), 0);
  const Values found[] = {{1}, {2}}, wanted[] = {{1}, {3}};
  const std::vector<int64_t> class_0 = {0}, class_1 = {1};
  for (size_t i = 0; i < 2; ++i) {
    TaskSample sample = SampleOf(found[i], wanted[i], {1});
    sample.name = i == 0 ? "samples/a.npy" : "samples/b.npy";
    sample.outputs.push_back({{1}, {}, class_0});
    sample.reference.push_back({{1}, {}, i == 0 ? class_0 : class_1});
    meter->Add(sample);
  }
  const TaskReport report = meter->Result();
  EXPECT_DOUBLE_EQ(FigureOf(report, "agreement of classes"), 0.5);
  EXPECT_DOUBLE_EQ(FigureOf(report, "R2 against the labels"), 0.5);  // errors 1, spread 2
  EXPECT_DOUBLE_EQ(*report.figures.back().reference, 1);
  EXPECT_DOUBLE_EQ(*report.loss, 0.5);
}

TEST(Task, OfSegmentationIsTheMeanOverClasses) {
  const auto meter = MakeSegmentationMeter(ParseTask("segmentation"), 0);
  // Two channels of 1x4 pixels: wanted classes 0 0 1 1, found 0 1 1 1.
  const Values wanted = {1, 1, 0, 0, 0, 0, 1, 1}, found = {1, 0, 0, 0, 0, 1, 1, 1};
  meter->Add(SampleOf(found, wanted, {2, 1, 4}));
  EXPECT_DOUBLE_EQ(FigureOf(meter->Result(), "mIoU with the float masks"), (0.5 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(*meter->Result().loss, 1 - (0.5 + 2.0 / 3) / 2);

  const auto matte = MakeSegmentationMeter(ParseTask("segmentation"), 0);
  const Values soft = {0.9, 0.4}, harder = {1, 0.6};
  matte->Add(SampleOf(harder, soft, {1, 1, 2}));
  EXPECT_NEAR(FigureOf(matte->Result(), "mean absolute difference"), 0.15, 1e-12);
  EXPECT_DOUBLE_EQ(FigureOf(matte->Result(), "mIoU with the float masks"), 0.25);
}

TEST(Task, OfEmbeddingsComparesNeighbours) {
  EXPECT_DOUBLE_EQ(RankCorrelation(Values{1, 2, 3, 4}, Values{2, 1, 4, 3}), 0.6);
  EXPECT_DOUBLE_EQ(RankCorrelation(Values{1, 2, 2, 4}, Values{1, 2, 2, 4}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation(Values{1, 1, 1}, Values{1, 2, 3}), 0);
  const auto meter = MakeEmbeddingMeter(ParseTask("embedding:k=2"), 0);
  // Eight directions in a plane; two of them change places in the second model.
  std::vector<Values> wanted, found;
  for (int i = 0; i < 8; ++i) wanted.push_back({std::cos(0.1 * i * i), std::sin(0.1 * i * i)});
  found = wanted;
  std::swap(found[0], found[7]);
  for (size_t i = 0; i < 8; ++i) meter->Add(SampleOf(found[i], wanted[i], {2}));
  const TaskReport report = meter->Result();
  const double between = std::cos(4.9);
  EXPECT_NEAR(FigureOf(report, "cosine to the float vector, mean"), (6 + 2 * between) / 8, 1e-12);
  EXPECT_NEAR(FigureOf(report, "cosine to the float vector, least"), between, 1e-12);
  EXPECT_LT(FigureOf(report, "recall@2"), 1);
  EXPECT_EQ(report.loss_name, "1 - rank agreement");

  const auto same = MakeEmbeddingMeter(ParseTask("embedding"), 0);
  for (const Values& vector : wanted) same->Add(SampleOf(vector, vector, {2}));
  EXPECT_DOUBLE_EQ(FigureOf(same->Result(), "recall@4"), 1);  // half of the samples
  EXPECT_DOUBLE_EQ(*same->Result().loss, 0);
}

TEST(Task, OfEmbeddingsNamesSamplesWhoseNeighboursChanged) {
  const auto meter = MakeEmbeddingMeter(ParseTask("embedding:k=2"), 0, {{"5.npz", "five"}});
  // Directions in a quarter of the plane, the further apart the later. In the second model, the
  // last two lie beside the first.
  std::vector<Values> wanted, found;
  for (int i = 0; i < 10; ++i) wanted.push_back({std::cos(0.017 * i * i), std::sin(0.017 * i * i)});
  found = wanted;
  found[8] = {std::cos(0.001), std::sin(0.001)};
  found[9] = {std::cos(0.002), std::sin(0.002)};
  for (size_t i = 0; i < 10; ++i) {
    TaskSample sample = SampleOf(found[i], wanted[i], {2});
    sample.name = std::to_string(i) + ".npz";
    meter->Add(sample);
  }
  const NeighbourReport report = *meter->Result().neighbours;
  EXPECT_EQ(report.num_neighbours, 5u);
  EXPECT_EQ(report.num_samples, 10u);
  EXPECT_EQ(report.num_same, 1u);  // the sixth, in the middle
  ASSERT_EQ(report.changed.size(), 6u);
  EXPECT_EQ(report.changed[0].name, "0.npz");
  const SampleNeighbours& first = report.changed[0];
  const auto names = [](const std::vector<Neighbour>& neighbours) {
    std::vector<std::string> result;
    for (const Neighbour& neighbour : neighbours) result.push_back(neighbour.name);
    return result;
  };
  EXPECT_THAT(names(first.wanted), ElementsAre("1.npz", "2.npz", "3.npz", "4.npz", "five"));
  EXPECT_THAT(names(first.found), ElementsAre("8.npz", "9.npz", "1.npz", "2.npz", "3.npz"));
  EXPECT_EQ(first.found[0].other_rank, 8u);
  EXPECT_EQ(first.found[2].other_rank, 1u);
  EXPECT_EQ(first.wanted[4].other_rank, 7u);
  EXPECT_NEAR(first.wanted[0].cosine, std::cos(0.017), 1e-12);

  const auto same = MakeEmbeddingMeter(ParseTask("embedding"), 0);
  for (const Values& vector : wanted) same->Add(SampleOf(vector, vector, {2}));
  EXPECT_EQ(same->Result().neighbours->num_same, 10u);
  EXPECT_TRUE(same->Result().neighbours->changed.empty());
}

TEST(Task, OfEmbeddingsPoolsWhatTheMaskCounts) {
  const auto meter = MakeEmbeddingMeter(ParseTask("embedding"), 0);
  const Values found = {1, 0, 0, 1, 9, 9}, wanted = {0, 1, 1, 0, -9, -9};
  TaskSample sample = SampleOf(found, wanted, {3, 2});
  sample.mask = {1, 1, 0};
  meter->Add(sample);
  EXPECT_NEAR(FigureOf(meter->Result(), "cosine to the float vector, mean"), 1, 1e-12);
}

TEST(Task, OfTextsCountsEdits) {
  const std::vector<int64_t> kitten = {'k', 'i', 't', 't', 'e', 'n'};
  const std::vector<int64_t> sitting = {'s', 'i', 't', 't', 'i', 'n', 'g'};
  EXPECT_EQ(EditDistance(kitten, sitting), 3);
  EXPECT_EQ(EditDistance({}, sitting), 7);
  EXPECT_EQ(EditDistance(kitten, kitten), 0);
  const ScratchFolder folder;
  const std::string words = PathText(folder.path() / "vocabulary.txt");
  const std::string labels = PathText(folder.path() / "labels.csv");
  std::ofstream(words) << "<blank>\na\nb\n \n";
  std::ofstream(labels) << "file,text\nline,ab a\n";
  const auto meter =
      MakeTextMeter(ParseTask("text:blank=0,vocabulary=" + words + ",labels=" + labels), 0);
  const auto path = [](const std::vector<size_t>& classes) {
    Values scores(classes.size() * 4, 0.0);
    for (size_t i = 0; i < classes.size(); ++i) scores[4 * i + classes[i]] = 1;
    return scores;
  };
  // "ab a", where the repeated a is one, and "aa a" with a blank between two.
  const Values wanted = path({1, 1, 2, 0, 3, 1}), found = path({1, 0, 1, 3, 1, 0});
  TaskSample sample = SampleOf(found, wanted, {6, 4});
  sample.name = "line";
  meter->Add(sample);
  const TaskReport report = meter->Result();
  EXPECT_DOUBLE_EQ(FigureOf(report, "character errors against the float texts"), 0.25);
  EXPECT_DOUBLE_EQ(FigureOf(report, "character errors"), 0.25);
  EXPECT_DOUBLE_EQ(FigureOf(report, "word errors"), 0.5);
  EXPECT_DOUBLE_EQ(*report.figures.back().reference, 0);
}

TEST(Task, OfDetectionReadsEachLayout) {
  EXPECT_DOUBLE_EQ(Iou({0, 0, 2, 2, 1, 0}, {1, 0, 3, 2, 1, 0}), 1.0 / 3);
  const DetectionSettings settings{"yolo8", 0.25, 0.5, 4};
  // Two boxes of two classes in [4 + classes, boxes], the second one covered by the first.
  const Values columns = {10, 10.5, 50, 10, 10, 50, 4, 4, 8, 4, 4, 8, .9, .8, .1, .0, .1, .6};
  const std::vector<Box> boxes = ReadBoxes({{{6, 3}, columns, {}}}, settings, 0.25);
  ASSERT_EQ(boxes.size(), 2);
  EXPECT_DOUBLE_EQ(boxes[0].left, 8);
  EXPECT_DOUBLE_EQ(boxes[0].score, 0.9);
  EXPECT_EQ(boxes[1].label, 1);
  EXPECT_DOUBLE_EQ(boxes[1].bottom, 54);
  const Values rows = {10, 10, 4, 4, 0.5, 0.9, 0.2};
  const std::vector<Box> five = ReadBoxes({{{1, 7}, rows, {}}}, {"yolo5", 0.25, 0.5, 4}, 0.25);
  ASSERT_EQ(five.size(), 1);
  EXPECT_DOUBLE_EQ(five[0].score, 0.45);
  const Values ends = {1, 2, 3, 4, 0.7, 5, 1, 2, 3, 4, 0.1, 5};
  const std::vector<Box> end = ReadBoxes({{{2, 6}, ends, {}}}, {"end2end", 0.25, 0.5, 4}, 0.25);
  ASSERT_EQ(end.size(), 1);
  EXPECT_EQ(end[0].label, 5);
  const Values scores = {0, 0, 0, 0.8}, sizes = {0, 0, 0, std::log(2.0), 0, 0, 0, 0};
  const Values offsets = {0, 0, 0, 0.25, 0, 0, 0, -0.5};
  const std::vector<Box> face =
      ReadBoxes({{{1, 2, 2}, scores, {}}, {{2, 2, 2}, sizes, {}}, {{2, 2, 2}, offsets, {}}},
                {"centermap", 0.5, 0.5, 4}, 0.5);
  ASSERT_EQ(face.size(), 1);  // centre (4, 7), 4 wide and 8 high
  EXPECT_DOUBLE_EQ(face[0].left, 2);
  EXPECT_DOUBLE_EQ(face[0].top, 3);
  EXPECT_DOUBLE_EQ(face[0].bottom, 11);
  EXPECT_THROW(ReadBoxes({{{2, 7}, rows, {}}}, {"end2end", 0.25, 0.5, 4}, 0.25), Error);
}

TEST(Task, OfDetectionPairsBoxesOfBothModels) {
  const Box near = {0, 0, 10, 10, 0.9, 0}, miss = {50, 50, 60, 60, 0.8, 0};
  const Box half = {0, 0, 10, 7, 0.7, 0};
  const std::vector<std::pair<size_t, size_t>> first_and_only = {{0, 0}};
  EXPECT_EQ(PairBoxes(std::vector<Box>{near, miss}, std::vector<Box>{half}, 0.5), first_and_only);
  EXPECT_DOUBLE_EQ(ShareWithin(half, {0, 5, 10, 10}), 2.0 / 7);
  EXPECT_DOUBLE_EQ(ShareWithin({3, 3, 3, 3}, near), 0);
}

TEST(Task, OfEmbeddingsMayTakeEachVector) {
  const auto meter = MakeEmbeddingMeter(ParseTask("embedding:pool=none"), 0);
  const Values found = {1, 0, 0, 2, 0, 0}, wanted = {2, 0, 1, 1, 0, 0};
  meter->Add(SampleOf(found, wanted, {3, 1, 2}));
  const TaskReport report = meter->Result();
  EXPECT_NEAR(*report.loss, 1 - (1 + std::sqrt(0.5) + 1) / 3, 1e-12);
  EXPECT_EQ(report.loss_name, "1 - cosine");
  EXPECT_EQ(report.how, "3 vectors");

  // Vectors of several sizes have no similarities.
  const auto other = MakeEmbeddingMeter(ParseTask("embedding"), 0);
  for (size_t i = 0; i < 9; ++i) {
    const Values vector(i < 8 ? 2 : 3, 1);
    other->Add(SampleOf(vector, vector, {static_cast<int64_t>(vector.size())}));
  }
  EXPECT_EQ(other->Result().loss_name, "1 - cosine");
}

TEST(Task, OfClassesIsWhatTheFloatModelExpects) {
  const auto meter = MakeClassMeter(0);
  meter->Add(SampleOf({0.6, 0.4}, {0.9, 0.1}, {2}));
  meter->Add(SampleOf({0.4, 0.6}, {0.7, 0.3}, {2}));
  const TaskReport report = meter->Result();
  EXPECT_DOUBLE_EQ(FigureOf(report, "agreement of first classes"), 0.5);
  EXPECT_EQ(report.loss_name, "expected top-1");
  EXPECT_NEAR(*report.loss, (1.6 - 1.2) / 1.6, 1e-12);
}

TaskInterface InterfaceOf(std::vector<int64_t> dims, Values values, const std::string& name = "y") {
  TaskInterface interface;
  interface.output_names = {name};
  interface.outputs.push_back({std::move(dims), std::move(values)});
  interface.reads_image = true;
  return interface;
}

// One cell of each grid for an image of 32x32 pixels has 16 + 4 + 1 cells.
TEST(Boxes, OfYoloxCountInCells) {
  constexpr size_t kCells = 21, kFields = 6;
  Values values(kCells * kFields, 0);
  const auto set = [&](size_t cell, const Values& row) {
    std::ranges::copy(row, values.begin() + static_cast<ptrdiff_t>(cell * kFields));
  };
  set(5, {0.5, 0.25, 0, std::log(2.0), 1, 0.5});  // the second cell of the second row
  set(20, {0, 0.5, -1, -1, 0.5, 0.8});
  const TaskSample sample = SampleOf(values, values, {kCells, kFields});
  const DetectionSettings settings{.layout = "yolox", .input_height = 32, .input_width = 32};
  const std::vector<Box> boxes = ReadBoxes(sample.outputs, settings, 0.3);
  ASSERT_EQ(boxes.size(), 2);
  EXPECT_DOUBLE_EQ(boxes[0].score, 0.5);
  EXPECT_DOUBLE_EQ(boxes[0].left, (1 + 0.5) * 8 - 4);
  EXPECT_DOUBLE_EQ(boxes[0].top, (1 + 0.25) * 8 - 8);
  EXPECT_DOUBLE_EQ(boxes[0].right - boxes[0].left, 8);
  EXPECT_DOUBLE_EQ(boxes[0].bottom - boxes[0].top, 16);
  EXPECT_DOUBLE_EQ(boxes[1].score, 0.4);
  EXPECT_NEAR(boxes[1].right - boxes[1].left, 32 * std::exp(-1), 1e-9);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            ReadBoxes(sample.outputs,
                                      {.layout = "yolox", .input_height = 64, .input_width = 32},
                                      0.3);
                          }),
              HasSubstr("expected [42, 5 + classes] for an image of 32x64 pixels"));
}

// 200 boxes with one class and eight factors of masks, for an image of 32x32 pixels whose
// prototypes have 8x8. Only the first box has a score.
TEST(Boxes, OfYoloMayHaveMasks) {
  constexpr size_t kBoxes = 200;
  Values head(13 * kBoxes, 0), prototypes(8 * 64, 0);
  const auto set = [&](size_t field, double value) { head[field * kBoxes] = value; };
  set(0, 8), set(1, 8), set(2, 16), set(3, 16);  // 4x4 pixels of the prototypes
  set(4, 0.9);
  set(5, 1), set(6, -2);
  for (size_t i = 0; i < 64; ++i) {
    prototypes[i] = i % 8 == 3 ? 3 : 1;  // the first one: 1 - 2 * x for the factors above
    prototypes[64 + i] = 1;
  }
  TaskInterface interface = InterfaceOf({1, 13, kBoxes}, head);
  EXPECT_EQ(FindBoxLayout(interface), "");  // factors are no scores
  interface.output_names.emplace_back("prototypes");
  interface.outputs.push_back({{1, 8, 8, 8}, prototypes});
  interface.input_height = interface.input_width = 32;
  EXPECT_EQ(FindBoxLayout(interface), "yolo8");
  const DetectionSettings settings{.layout = "yolo8", .input_height = 32, .input_width = 32};
  const std::vector<SampleOutput> outputs = {{{13, kBoxes}, head, {}}, {{8, 8, 8}, prototypes, {}}};
  const SampleOutput* const found_prototypes = PrototypesOf(outputs, settings);
  ASSERT_EQ(found_prototypes, &outputs[1]);
  EXPECT_EQ(PrototypesOf({outputs[0]}, settings), nullptr);
  const std::vector<Box> boxes = ReadBoxes(outputs, settings, 0.25);
  ASSERT_EQ(boxes.size(), 1);
  EXPECT_EQ(boxes[0].label, 0);
  const ImageFit fit = FitOfPrototypes(*found_prototypes, settings);
  const RunLengthMask mask = MaskOf(boxes[0], outputs, settings, fit);
  EXPECT_THAT(mask.counts(), ElementsAre(24, 4, 36));  // the upper half of the fourth column

  // The other model's mask is that column and the one beside it, so that their IoU is a half.
  Values wider = prototypes;
  for (size_t i = 2; i < 64; i += 8) wider[i] = 3;
  std::vector<SampleOutput> others = {outputs[0], {{8, 8, 8}, wider, {}}};
  EXPECT_DOUBLE_EQ(MaskIou(mask, MaskOf(boxes[0], others, settings, fit), 1), 0.5);
  const auto meter = MakeTaskMeasure(ParseTask("auto"), interface).meter;
  TaskSample sample;
  sample.outputs = others;
  sample.reference = outputs;
  sample.input_height = sample.input_width = 32;
  meter->Add(sample);
  EXPECT_EQ(meter->Result().loss_name, "1 - F1 of masks");
  EXPECT_DOUBLE_EQ(*meter->Result().loss, 0);
  for (size_t i = 1; i < 64; i += 8) wider[i] = 3;
  meter->Add(sample);
  EXPECT_DOUBLE_EQ(FigureOf(meter->Result(), "F1 with the float boxes"), 1);
  EXPECT_DOUBLE_EQ(FigureOf(meter->Result(), "F1 with the float masks"), 0.5);
  EXPECT_DOUBLE_EQ(FigureOf(meter->Result(), "IoU of paired masks, mean"), (1.0 / 2 + 1.0 / 3) / 2);
}

// PaddleOCR's recognizers list their characters: the blank is before them, a space behind them.
TEST(Text, TakesTheCharactersOfTheMetadata) {
  const std::vector<std::string> characters = {"a", "b"};
  const auto meter = MakeTextMeter(ParseTask("text"), 0, characters);
  const Values steps = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0};
  meter->Add(SampleOf(steps, steps, {4, 4}));
  EXPECT_EQ(meter->Result().how, "CTC, blank 0");
}

std::string TaskFound(const TaskInterface& interface) {
  const auto meter = MakeTaskMeasure(ParseTask("auto"), interface).meter;
  return meter ? meter->Result().task : "none";
}

// A measure of nothing is no loss of nothing.
TEST(Task, SaysWhenItMeasuresNothing) {
  const auto result = [](TaskMeter& meter, const Values& values, std::vector<int64_t> dims) {
    meter.Add(SampleOf(values, values, std::move(dims)));
    const TaskReport report = meter.Result();
    EXPECT_FALSE(report.loss) << report.task;
    EXPECT_TRUE(report.figures.empty() || report.task == "segmentation") << report.task;
    return report.why_no_loss;
  };
  const Values no_box = {10, 10, 50, 50, .1, 0};
  EXPECT_THAT(result(*MakeDetectionMeter(ParseTask("detection"), "end2end"), no_box, {1, 6}),
              HasSubstr("neither model gives a box with a score of 0.25 in 1 sample"));
  EXPECT_THAT(result(*MakeTextMeter(ParseTask("text:blank=0"), 0), {1, 0, 1, 0}, {2, 2}),
              HasSubstr("neither model gives a text"));
  EXPECT_THAT(result(*MakeSegmentationMeter(ParseTask("segmentation"), 0), {0, 0, 0, 0}, {1, 2, 2}),
              HasSubstr("one class"));
  EXPECT_THAT(result(*MakeRegressionMeter(ParseTask("regression"), 0), {3}, {1}),
              HasSubstr("do not vary"));
  EXPECT_THAT(result(*MakeRegressionMeter(ParseTask("regression"), 0), {1e200}, {1}),
              HasSubstr("too large to add up their squares in 1 sample"));
}

TEST(Task, RefusesSettingsOutOfTheirRange) {
  for (const std::string blank : {"2147483647", "-1", "0.5", "nan"}) {
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                            [&] { MakeTextMeter(ParseTask("text:blank=" + blank), 0); }),
                HasSubstr("blank"));
  }
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [] { MakeEmbeddingMeter(ParseTask("embedding:k=0"), 0); }),
              HasSubstr("task setting k is 0, expected an integer from 1"));
}

TEST(Task, HasTheStrictLossOfItsLossAlone) {
  TaskReport report;
  report.SetLoss(0.1, "1 - F1 of boxes", "boxes", 30);
  report.strict_loss = 0.05;
  report.strict_loss_name = "drop of expected F1, at most";
  report.SetLoss(0.2, "drop of mAP");
  EXPECT_FALSE(report.strict_loss);
  EXPECT_EQ(report.strict_loss_name, "");
}

TEST(Task, IsFoundFromTheOutputs) {
  Values vector(64, 0.125);
  EXPECT_EQ(TaskFound(InterfaceOf({1, 64}, vector)), "none");  // may be probabilities
  vector[0] = -0.125;
  EXPECT_EQ(TaskFound(InterfaceOf({1, 64}, vector)), "embedding");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 1, 32, 32}, Values(1024, 0.5))), "segmentation");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 1, 32, 32}, Values(1024, 1.5))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 3, 32, 32}, Values(3072, 0.5))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 1}, {7})), "regression");
  EXPECT_EQ(TaskFound(InterfaceOf({}, {7})), "regression");
  EXPECT_EQ(TaskFound(InterfaceOf({2}, {3, 4})), "regression");
  EXPECT_EQ(TaskFound(InterfaceOf({9}, Values(9, 3))), "none");  // may be steps of time
  EXPECT_EQ(TaskFound(InterfaceOf({2}, {0.25, 0.75})), "none");  // classes
  TaskInterface two = InterfaceOf({}, {7});
  two.batch_size = 2;
  EXPECT_EQ(TaskFound(two), "none");
  // Softmax would make about 1/64 of each.
  Values features(64, 0.5);
  features[7] = 1.5;
  EXPECT_EQ(TaskFound(InterfaceOf({1, 64}, features)), "none");
  features[8] = -0.5;
  EXPECT_EQ(TaskFound(InterfaceOf({1, 64}, features)), "embedding");
  features[7] = 3;
  EXPECT_EQ(TaskFound(InterfaceOf({1, 64}, features)), "none");
  // Steps that are sure of a character are a text, in shares and in their logarithms.
  Values steps(200, 0), logs(200, -20);
  for (size_t i = 0; i < 200; i += 50) steps[i] = 1;
  for (size_t i = 0; i < 200; i += 50) logs[i] = 0;
  EXPECT_EQ(TaskFound(InterfaceOf({1, 4, 50}, steps)), "text");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 4, 50}, logs)), "text");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 4, 50}, Values(200, 0.02))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 200}, Values(1200, 0.005))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 200}, Values(1200, 0.5))), "detection");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 200, 6}, Values(1200, 1))), "detection");
  // It has as many rows as an image of 128x64 pixels has cells. Sizes are logarithms, below 0.
  TaskInterface grids = InterfaceOf({1, 168, 6}, Values(1008, 0.5));
  grids.input_height = 64;
  grids.input_width = 128;
  EXPECT_EQ(FindBoxLayout(grids), "yolo5");
  grids.outputs[0].values[2] = -0.5;
  EXPECT_EQ(FindBoxLayout(grids), "yolox");
  grids.input_width = 160;
  EXPECT_EQ(FindBoxLayout(grids), "");
  TaskInterface sentences = InterfaceOf({1, 384}, Values(384, 2));
  EXPECT_EQ(TaskFound(sentences), "none");
  sentences.reads_tokens = true;
  EXPECT_EQ(TaskFound(sentences), "embedding");
  // Vectors of steps are features, maps of a picture are not.
  Values vectors(3 * 64, 0.5);
  for (size_t i = 0; i < vectors.size(); i += 2) vectors[i] = -0.5;
  TaskInterface frames = InterfaceOf({1, 3, 64}, vectors);
  EXPECT_EQ(TaskFound(frames), "none");
  frames.reads_image = false;
  EXPECT_EQ(TaskFound(frames), "embedding");
  frames.outputs[0].dims = {1, 1, 192};  // may be sound
  EXPECT_EQ(TaskFound(frames), "none");
  EXPECT_EQ(MakeTaskMeasure(ParseTask("none"), InterfaceOf({1, 1}, {7})).meter, nullptr);
  EXPECT_THROW(MakeTaskMeasure(ParseTask("detection"), InterfaceOf({1, 1}, {7})), Error);
}

// Scores of one class a row, by which a softmax is nearly sure of it.
Values ScoresOf(const std::vector<size_t>& classes, size_t num_classes) {
  Values scores(classes.size() * num_classes, -2);
  for (size_t i = 0; i < classes.size(); ++i) scores[i * num_classes + classes[i]] = 9;
  return scores;
}

// Scores before a softmax are a text if many steps are of the first or last class, a blank.
TEST(Task, IsATextOfScoresWithBlanks) {
  const std::vector<size_t> last{29, 4, 29, 29, 7, 29}, first{0, 0, 4, 0, 7, 0};
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, ScoresOf(last, 30))), "text");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, ScoresOf(first, 30))), "text");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 20}, ScoresOf(first, 20))), "none");  // no alphabet
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, ScoresOf({5, 5, 4, 5, 7, 5}, 30))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, ScoresOf({0, 0, 0, 0, 7, 0}, 30))), "none");
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, ScoresOf({0, 1, 2, 3, 7, 8}, 30))), "none");
  Values features = ScoresOf(first, 30);  // as a ReLU gives them
  for (double& value : features) value = std::max(value, 0.0);
  EXPECT_EQ(TaskFound(InterfaceOf({1, 6, 30}, features)), "none");
}

// Words of a text have classes, and steps are what is lost.
TEST(Task, HasClassesOfTokens) {
  const std::vector<size_t> classes{3, 1, 3, 0, 2, 3};
  TaskInterface words = InterfaceOf({1, 6, 5}, ScoresOf(classes, 5));
  words.reads_image = false;
  EXPECT_EQ(TaskFound(words), "none");
  words.num_tokens = 6;
  EXPECT_EQ(TaskFound(words), "classes");
  for (double& score : words.outputs[0].values) score = score > 0 ? 0.96 : 0.01;
  EXPECT_EQ(TaskFound(words), "classes");  // shares, too
  words.outputs[0].values = ScoresOf({3, 3, 3, 3, 3, 3}, 5);
  EXPECT_EQ(TaskFound(words), "none");  // an outlier of hidden states is in one place

  const auto meter = MakeClassMeter(0);
  TaskSample sample =
      SampleOf(ScoresOf({3, 1, 3, 0, 2, 2}, 5), ScoresOf({3, 1, 3, 0, 1, 3}, 5), {6, 5});
  sample.mask = {1, 1, 1, 1, 1, 0};  // of what is padding nothing is lost
  meter->Add(sample);
  const TaskReport report = meter->Result();
  EXPECT_DOUBLE_EQ(FigureOf(report, "agreement of first classes"), 0.8);
  EXPECT_EQ(report.items, "steps");
  EXPECT_EQ(report.num_items, 5u);
  EXPECT_THAT(
      [&] {
        meter->Add(SampleOf(Values(8, 1), Values(8, 1), {2, 2, 2}));
      },
      testing::ThrowsMessage<Error>(HasSubstr("[classes] or [steps, classes], not 3 axes")));
  meter->Add(SampleOf({1, 2}, {1, 2}, {2, 1, 1}));  // of one step
}

// Recurrent networks count steps first. Texts of a batch are those of its samples.
TEST(RunMeter, TakesTextsThatCountStepsFirst) {
  constexpr size_t kClasses = 30;
  // Samples 0 and 1 of six steps: the second loses one of its three characters.
  const std::vector<size_t> wanted{0, 9, 4, 0, 0, 8, 0, 0, 7, 5, 0, 0};
  std::vector<size_t> lost = wanted;
  lost[5] = 0;
  const std::vector<Output> reference{{{6, 2, kClasses}, ScoresOf(wanted, kClasses)}};
  const std::vector<Output> found{{{6, 2, kClasses}, ScoresOf(lost, kClasses)}};
  const std::vector<runtime::ValueDescription> inputs{{"x", DataType::kFloat, {-1, 8}}};
  const std::vector<runtime::ValueDescription> outputs{
      {"y", DataType::kFloat, {6, -1, static_cast<int64_t>(kClasses)}}};
  RunMeter meter({}, inputs, outputs);
  data::Batch batch;
  batch.num_samples = 2;
  const std::vector<Tensor> tensors;
  MeasuredRun run{batch, tensors, 2, found};
  run.wanted = {&reference[0]};
  EvaluationState counts;
  counts.outputs.resize(1);
  meter.Add(run, counts);
  EvaluationReport report;
  meter.AddTask(counts, report);
  ASSERT_TRUE(report.task);
  EXPECT_EQ(report.task->task, "text");
  EXPECT_EQ(report.task->num_items, 5u);
  EXPECT_DOUBLE_EQ(report.task->loss.value_or(-1), 0.2);
}

// Each of the other outputs has the measure that suits it.
TEST(Task, OfHeadsAreFoundOneByOne) {
  TaskInterface all = InterfaceOf({2, 4}, {.1, .2, .3, .4, .1, .2, .3, .4}, "classes");
  const auto add = [&](const std::string& name, std::vector<int64_t> dims, Values values) {
    all.output_names.push_back(name);
    all.outputs.push_back({std::move(dims), std::move(values)});
  };
  all.batch_size = 2;
  add("box", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  add("age", {2, 1}, {30, 40});
  add("kind", {2, 2}, {.5, .5, .25, .75});
  add("logits", {2, 16}, Values(32, 1));
  const auto names = [&](bool is_classifier) {
    std::vector<std::string> found;
    for (const TaskMeasure& head : MakeHeadMeasures(all, 0, is_classifier)) {
      found.push_back(head.meter ? head.meter->Result().task : "noise");
    }
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(true), (Names{"noise", "regression", "classes", "classes"}));
  EXPECT_EQ(names(false), (Names{"noise", "regression", "classes", "noise"}));
}

}  // namespace
}  // namespace bitpress::evaluate
