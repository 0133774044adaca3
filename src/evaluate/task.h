// Measures of a model in the terms of its task: boxes, masks, ranks, texts, numbers. `evaluate` and
// `auto` use them for networks whose outputs are no class scores and no next tokens.
//
// A meter takes one sample after another with what the model and its reference gave for it, and
// says at the end how well they agree, and how well each does against labels, if there are any. The
// task is found from the outputs of the first run, or named: "detection:labels=instances.json".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/fields.h"
#include "base/tensor.h"
#include "base/words.h"
#include "evaluate/outputs.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

enum class Task : uint8_t {
  kFind,  // by the outputs
  kNone,
  kClasses,
  kDetection,
  kSegmentation,
  kEmbedding,
  kText,
  kRegression,
};
inline constexpr std::array<std::pair<std::string_view, Task>, 8> kTaskWords{
    {{"auto", Task::kFind},
     {"none", Task::kNone},
     {"classes", Task::kClasses},
     {"detection", Task::kDetection},
     {"segmentation", Task::kSegmentation},
     {"embedding", Task::kEmbedding},
     {"text", Task::kText},
     {"regression", Task::kRegression}}};

// A task with its settings, which docs/guides/task_measures.md lists.
struct TaskSpec {
  Task task = Task::kFind;
  std::map<std::string, std::string, std::less<>> settings;

  // Return a setting, or `fallback` without it. Throw Error(kInvalidArgument) if it is no number.
  std::string Text(std::string_view key, std::string fallback = "") const;
  double Number(std::string_view key, double fallback) const;
  // Returns a setting, or `fallback` without it. Throws Error(kInvalidArgument) naming the setting
  // if it is no number from `least` to `most`.
  double Number(std::string_view key, double fallback, double least, double most) const;
  // Returns a setting, or `fallback` without it. Throws Error(kInvalidArgument) naming the setting
  // if it is no integer from `least` to `most`. REQUIRES: doubles hold both bounds exactly.
  int64_t Integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) const;
};
// Reads "auto", or "detection:layout=yolo8,score=0.25". Throws Error(kInvalidArgument) naming the
// word that is wrong, with the nearest.
TaskSpec ParseTask(std::string_view text);

// One figure of a task's measure.
struct TaskFigure {
  std::string name;
  double value = 0;
  std::optional<double> reference = {};  // the float model's, if the figure is against labels
};
constexpr auto FieldsOf(const TaskFigure*) {
  return std::tuple(Field{"name", &TaskFigure::name}, Field{"value", &TaskFigure::value},
                    Field{"reference", &TaskFigure::reference,
                          "The float model's figure. None if the figure compares both models."});
}

// A sample beside another one, and how near it is.
struct Neighbour {
  std::string name;
  double cosine = 0;
  uint64_t other_rank = 0;  // in the other model's order, from 1
};
constexpr auto FieldsOf(const Neighbour*) {
  return std::tuple(Field{"name", &Neighbour::name}, Field{"cosine", &Neighbour::cosine},
                    Field{"other_rank", &Neighbour::other_rank,
                          "Its rank among the neighbours that the other model gives, from 1."});
}
// The nearest neighbours of a sample, the nearest first.
struct SampleNeighbours {
  std::string name;
  std::vector<Neighbour> found, wanted;
};
constexpr auto FieldsOf(const SampleNeighbours*) {
  return std::tuple(Field{"name", &SampleNeighbours::name},
                    Field{"found", &SampleNeighbours::found, "Those of the model."},
                    Field{"wanted", &SampleNeighbours::wanted, "Those of the float model."});
}
struct NeighbourReport {
  uint64_t num_neighbours = 0;  // of a sample, that are compared here
  uint64_t num_samples = 0;
  uint64_t num_same = 0;
  std::vector<SampleNeighbours> changed = {};
};
constexpr auto FieldsOf(const NeighbourReport*) {
  return std::tuple(
      Field{"num_neighbours", &NeighbourReport::num_neighbours,
            "The nearest neighbours of a sample that are compared here."},
      Field{"num_samples", &NeighbourReport::num_samples},
      Field{"num_same", &NeighbourReport::num_same, "Samples that keep them all in their order."},
      Field{"changed", &NeighbourReport::changed,
            "The first of those whose neighbours changed most."});
}

struct TaskReport {
  std::string task;
  std::string how = "";  // what the outputs were taken for
  uint64_t num_samples = 0;
  std::vector<TaskFigure> figures = {};
  // The loss by which `auto` decides, 0 without any, and what it is.
  std::optional<double> loss = {};
  std::string loss_name = "";
  // Why the measure says nothing of these samples: there is no loss then. "": it does.
  std::string why_no_loss = "";
  // The loss counts these, such as boxes, and the float model has so many. "": it counts nothing,
  // and any small change shows.
  std::string items = "";
  uint64_t num_items = 0;
  // For few items, the loss by a stricter measure to which every item adds something: the most that
  // it is in 95 of 100 cases, and its name. The guard decides by it.
  std::optional<double> strict_loss = {};
  std::string strict_loss_name = "";
  std::optional<NeighbourReport> neighbours = {};

  // Sets the loss, in place of one that was there or of the reason why there was none. The strict
  // loss of the one before goes with it.
  void SetLoss(double value, std::string name, std::string counted = "", uint64_t count = 0) {
    loss = value;
    loss_name = std::move(name);
    why_no_loss.clear();
    items = std::move(counted);
    num_items = count;
    strict_loss.reset();
    strict_loss_name.clear();
  }
};
constexpr auto FieldsOf(const TaskReport*) {
  return std::tuple(
      Field{"task", &TaskReport::task}, Field{"how", &TaskReport::how},
      Field{"num_samples", &TaskReport::num_samples}, Field{"figures", &TaskReport::figures},
      Field{"loss", &TaskReport::loss,
            "By which `auto` decides, as a share; 0 without any loss. None without a reference and "
            "without labels, and where the measure says nothing of the samples."},
      Field{"loss_name", &TaskReport::loss_name},
      Field{"why_no_loss", &TaskReport::why_no_loss,
            "Why the measure says nothing of these samples, such as photos without any box."},
      Field{"items", &TaskReport::items,
            "What the loss counts, such as boxes. '': it counts nothing, and any small change "
            "shows."},
      Field{"num_items", &TaskReport::num_items, "How many of them the float model has."},
      Field{"strict_loss", &TaskReport::strict_loss,
            "The most that the loss is by a stricter measure in 95 of 100 cases. None unless items "
            "are few."},
      Field{"strict_loss_name", &TaskReport::strict_loss_name},
      Field{"neighbours", &TaskReport::neighbours,
            "Samples whose neighbours changed. None but for embeddings of samples."});
}

// One output for one sample.
struct SampleOutput {
  std::vector<int64_t> dims;  // without that of the batch
  std::span<const double> values;
  std::span<const int64_t> integers;  // of an output of integers, which has no values

  // Returns the number of rows of the last axis.
  size_t NumRows() const {
    if (dims.empty() || dims.back() == 0) return 0;
    return values.size() / static_cast<size_t>(dims.back());
  }
};

// The results of one sample. Outputs are in the order of the model.
struct TaskSample {
  std::string name;
  std::vector<SampleOutput> outputs;
  std::vector<SampleOutput> reference;        // empty without one
  std::vector<int64_t> mask;                  // 1 for each token that counts; empty: all do
  int64_t input_height = 0, input_width = 0;  // of the image that the model saw; 0: it is none
};

// A box, or the masks, that two models found in a picture.
struct DrawnBox {
  double left = 0, top = 0, right = 0, bottom = 0;  // in pixels of what the models saw
  double score = 0;
  int64_t label = 0;
  bool is_reference = false;
  bool is_paired = false;  // the other model has it, too
};
constexpr auto FieldsOf(const DrawnBox*) {
  return std::tuple(Field{"left", &DrawnBox::left}, Field{"top", &DrawnBox::top},
                    Field{"right", &DrawnBox::right}, Field{"bottom", &DrawnBox::bottom},
                    Field{"score", &DrawnBox::score}, Field{"label", &DrawnBox::label},
                    Field{"is_reference", &DrawnBox::is_reference},
                    Field{"is_paired", &DrawnBox::is_paired});
}
enum class DrawnPixel : uint8_t { kNothing, kBoth, kDiffers };
struct TaskDrawing {
  std::vector<DrawnBox> boxes;
  std::vector<DrawnPixel> mask;  // of masks; empty: there are none
  int64_t mask_height = 0, mask_width = 0;
};
// A picture as the models saw it, [channels, height, width] or [height, width, channels].
struct TaskPicture {
  std::string name;
  std::vector<int64_t> dims = {};
  std::vector<double> pixels = {};
  TaskDrawing drawing;
};

class TaskMeter {
 public:
  virtual ~TaskMeter() = default;
  // Adds a sample. Throws Error(kInvalidArgument) if its outputs are not what the task needs.
  virtual void Add(const TaskSample& sample) = 0;
  virtual TaskReport Result() const = 0;
  // Adds the samples of another meter of this task. Throws Error(kInvalidArgument) if its result
  // follows from other settings.
  virtual void Merge(const TaskMeter& other) = 0;
  // Writes the samples, and the settings that the result follows from. The bytes do not depend on
  // the order of the samples.
  virtual void Write(ByteWriter& writer) const = 0;
  // Takes the place of the meter that wrote these bytes, for Result, Merge and Write. Throws
  // Error(kInvalidArgument) if they are damaged.
  virtual void Read(ByteReader& reader) = 0;
  // Returns what may be drawn on the picture of a sample that was added. REQUIRES: the sample has a
  // reference.
  virtual TaskDrawing Draw(const TaskSample& /*sample*/) const { return {}; }
};

// Says what is known of a task besides its settings, which go before it.
struct TaskHints {
  // The characters of the classes of a recognizer of text, without that of the blank.
  std::vector<std::string> characters = {};
  std::map<std::string, std::string> texts = {};  // of samples, by the names of their files
  std::string fit =
      "";  // how photos were fitted into the model's input, as the setting; "": unknown
};

// The names and shapes of a model's interface, in its first run.
struct TaskInterface {
  std::vector<std::string> output_names;
  std::vector<Output> outputs;  // of `batch_size` samples
  size_t batch_size = 1;
  bool reads_tokens = false, reads_image = false;
  int64_t num_tokens = 0;  // of a sample, if an input counts its tokens by integers
  int64_t input_height = 0, input_width = 0;  // as TaskSample has them
  TaskHints hints;
};

// A meter, and the output that it measures.
struct TaskMeasure {
  std::unique_ptr<TaskMeter> meter;   // null: there is none
  std::optional<size_t> output = {};  // nothing: the outputs are about one thing, and it reads all
};
// Returns the meter for the task; none if it is kNone or nothing was found. Throws
// Error(kInvalidArgument) if a file of labels is wrong, or if no output fits a task that was named.
TaskMeasure MakeTaskMeasure(const TaskSpec& spec, const TaskInterface& interface);

// Returns the measures of single outputs besides one that is measured already, which has the scores
// of classes if `is_classifier`. The meter of one that is of no known task is null. Outputs without
// floating-point numbers have none.
std::vector<TaskMeasure> MakeHeadMeasures(const TaskInterface& interface,
                                          std::optional<size_t> measured, bool is_classifier);

// Returns whether an output that counts steps before samples has the scores of the characters of a
// text. REQUIRES: its dimensions are [steps, samples, classes], and it has values.
bool HasTextInSteps(const TaskInterface& interface, size_t output);
// Returns [samples, steps, classes] of an output that is [steps, samples, classes].
Output SamplesFirst(const Output& output);

// Returns the samples of a run, which gave these outputs. `size` counts padding, too.
std::vector<TaskSample> SamplesOfRun(const std::vector<std::string>& names, size_t num_samples,
                                     size_t size, const std::vector<const Output*>& outputs,
                                     const std::vector<const Output*>& reference);

}  // namespace bitpress::evaluate
