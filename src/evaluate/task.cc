#include "evaluate/task.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "data/labels.h"
#include "evaluate/detection.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

// The settings of each task.
constexpr std::array<std::pair<Task, std::string_view>, 6> kTaskSettings{
    {{Task::kClasses, "output"},
     {Task::kDetection, "layout labels score iou stride fit"},
     {Task::kSegmentation, "threshold output"},
     {Task::kEmbedding, "k pool output"},
     {Task::kText, "blank vocabulary labels output"},
     {Task::kRegression, "labels output"}}};

std::vector<std::string> SettingsOf(Task task) {
  for (const auto& [known, settings] : kTaskSettings) {
    if (known == task) return Split(settings, ' ');
  }
  return {};
}

// Returns whether each row of `size` values satisfies a condition.
template <typename Condition>
bool EachRow(std::span<const double> values, size_t size, const Condition& holds) {
  for (size_t i = 0; i + size <= values.size(); i += size) {
    if (!holds(values.subspan(i, size))) return false;
  }
  return size > 0;
}

bool IsLogOfShares(std::span<const double> row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return std::abs(sum - 1) < 1e-2;
}

bool HasNegative(std::span<const double> row) {
  return std::ranges::any_of(row, [](double x) { return x < 0; });
}

// Probabilities of one class have a length of 1, too, but no negative number.
bool HasLengthOne(std::span<const double> row) {
  const double square = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  return std::abs(square - 1) < 1e-2 && HasNegative(row);
}

// Returns whether the numbers would name none of so many classes, and so are features.
bool NamesNoClass(std::span<const double> row) {
  constexpr size_t kLeastSize = 64;
  constexpr double kTimesChance = 4;
  if (row.size() < kLeastSize || !HasNegative(row)) return false;
  const double most = std::exp(std::ranges::max(LogSoftmax(row)));
  return most * static_cast<double>(row.size()) < kTimesChance;
}

// Numbers of enough classes at each step for a text.
bool HasStepsOfClasses(const TaskInterface& interface, const Output& output) {
  constexpr int64_t kLeastClasses = 26;
  return !interface.reads_tokens && output.dims.size() == 3 && output.dims[2] >= kLeastClasses;
}

// Shares of the classes at each step, or their logarithms.
bool HasSharesAtSteps(const TaskInterface& interface, const Output& output) {
  if (!HasStepsOfClasses(interface, output)) return false;
  const auto size = static_cast<size_t>(output.dims[2]);
  return EachRow(output.values, size, AreProbabilities) ||
         EachRow(output.values, size, IsLogOfShares);
}

// The largest share of a step, in the mean: that of scores which are shares or their logarithms, or
// whose softmax is.
constexpr double kLeastSure = 0.85;

// This is known of the rows of an output if they are shares or scores before a softmax.
struct StepChoices {
  bool are_sure = false;                 // in the mean, and no row is of another kind
  std::map<size_t, size_t> counts = {};  // of the steps of each class
  size_t num_steps = 0;
};
StepChoices ChoicesOf(const Output& output) {
  constexpr double kMostSpread = 200;  // a softmax of such numbers is the largest one alone
  StepChoices choices;
  const auto size = static_cast<size_t>(output.dims.back());
  if (size < 2) return choices;
  choices.num_steps = output.values.size() / size;
  double sure = 0;
  for (size_t i = 0; i < choices.num_steps; ++i) {
    const std::span<const double> row = output.Row(i, choices.num_steps);
    const auto [least, most] = std::ranges::minmax_element(row);
    const bool are_shares = AreProbabilities(row);
    // A ReLU leaves no scores.
    const bool are_scores = HasNegative(row) && *most - *least <= kMostSpread;
    if (!are_shares && !are_scores) return choices;
    sure += are_shares ? *most : std::exp(std::ranges::max(LogSoftmax(row)));
    ++choices.counts[static_cast<size_t>(most - row.begin())];
  }
  choices.are_sure = sure >= kLeastSure * static_cast<double>(choices.num_steps);
  return choices;
}

// Scores of characters before a softmax: steps are sure of one, and much of them of the blank,
// which is the first class or the last one.
bool HasBlanks(const Output& output) {
  constexpr size_t kLeastPart = 3;  // a third of the steps
  const StepChoices choices = ChoicesOf(output);
  if (!choices.are_sure || choices.counts.size() < 3) return false;
  const size_t last = static_cast<size_t>(output.dims.back()) - 1;
  const auto [blank, count] =
      *std::ranges::max_element(choices.counts, {}, [](const auto& entry) { return entry.second; });
  return (blank == 0 || blank == last) && kLeastPart * count >= choices.num_steps;
}

// Scores of the characters at each step of a text, as CTC has them: most steps are sure of one, or
// of the blank. Shares of the states of speech are not.
bool IsText(const TaskInterface& interface, const Output& output) {
  if (HasStepsOfClasses(interface, output) && HasBlanks(output)) return true;
  if (!HasSharesAtSteps(interface, output)) return false;
  const auto size = static_cast<size_t>(output.dims[2]);
  const size_t num_steps = output.values.size() / size;
  double sure = 0;
  for (size_t i = 0; i < num_steps; ++i) {
    const double most = std::ranges::max(output.Row(i, num_steps));
    sure += most > 0 ? most : std::exp(most);
  }
  return sure >= kLeastSure * static_cast<double>(num_steps);
}

// Scores of classes for each token, such as the kinds of words: most tokens are sure of one.
bool HasClassOfTokens(const TaskInterface& interface, const Output& output) {
  constexpr int64_t kMostClasses = 127;  // hidden states have more
  constexpr size_t kLeastChosen = 3;
  if (interface.num_tokens < 2 || output.dims.size() != 3 ||
      output.dims[1] != interface.num_tokens || output.dims[2] > kMostClasses) {
    return false;
  }
  const StepChoices choices = ChoicesOf(output);
  return choices.are_sure &&
         choices.counts.size() >= std::min(kLeastChosen, static_cast<size_t>(output.dims[2]));
}

bool HasClassesAtSteps(const TaskInterface& interface, const Output& output) {
  return HasClassOfTokens(interface, output) || HasSharesAtSteps(interface, output) ||
         IsText(interface, output);
}

// Vectors of features, such as one for each step or place.
bool IsVectors(std::span<const double> values, size_t size) {
  return EachRow(values, size, [](auto row) { return HasLengthOne(row) || NamesNoClass(row); });
}

bool IsEmbedding(const TaskInterface& interface, const Output& output, const std::string& name) {
  constexpr int64_t kLeastSize = 32;
  constexpr int64_t kUsualSizes = 64;  // embeddings of texts have a multiple of them, 128 or more
  if (output.dims.size() < 2 || output.dims.back() < kLeastSize) return false;
  const std::string lower = ToLower(name);
  const bool is_named = lower.find("embed") != std::string::npos || lower == "last_hidden_state";
  const bool has_features = IsVectors(output.values, static_cast<size_t>(output.dims.back()));
  // The last axis of a map of features of a picture is its width, and one row alone may be sound.
  if (output.dims.size() > 2) {
    const bool has_rows =
        output.values.size() / interface.batch_size > static_cast<size_t>(output.dims.back());
    return (interface.reads_tokens && is_named) ||
           (!interface.reads_image && has_rows && has_features);
  }
  return is_named ||
         (interface.reads_tokens && output.dims[1] >= 2 * kUsualSizes &&
          output.dims[1] % kUsualSizes == 0) ||
         has_features;
}

// One mask of shares, or of the shares of several classes.
bool IsSegmentation(const TaskInterface& interface, const Output& output) {
  constexpr int64_t kLeastSide = 32;
  if (!interface.reads_image || interface.outputs.size() != 1 || output.dims.size() != 4 ||
      output.dims[2] < kLeastSide || output.dims[3] < kLeastSide) {
    return false;
  }
  const auto num_channels = static_cast<size_t>(output.dims[1]);
  if (num_channels == 1) {
    return std::ranges::all_of(output.values, [](double x) { return x >= 0 && x <= 1; });
  }
  const std::span<const double> first = output.Row(0, interface.batch_size);
  const size_t num_pixels = first.size() / num_channels;
  for (size_t i = 0; i < num_pixels; ++i) {
    double sum = 0;
    for (size_t c = 0; c < num_channels; ++c) sum += first[c * num_pixels + i];
    if (std::abs(sum - 1) > 1e-2) return false;
  }
  return num_pixels > 0;
}

// Some numbers without a dimension for samples, in a run of one. They are no shares of classes.
bool IsOfOneSample(const TaskInterface& interface, const Output& output) {
  constexpr size_t kMost = 8;
  const bool are_shares = output.values.size() > 1 && AreProbabilities(output.values);
  return interface.batch_size == 1 && output.dims.size() <= 1 && output.values.size() <= kMost &&
         !are_shares;
}

bool IsRegression(const Output& output) {
  return output.dims.size() <= 1 || (output.dims.size() == 2 && output.dims[1] == 1);
}

using Test = bool (*)(const TaskInterface&, size_t);
constexpr std::array<std::pair<Task, Test>, 5> kTests{
    {{Task::kClasses,
      [](const TaskInterface& all, size_t i) { return HasClassOfTokens(all, all.outputs[i]); }},
     {Task::kText, [](const TaskInterface& all, size_t i) { return IsText(all, all.outputs[i]); }},
     {Task::kEmbedding,
      [](const TaskInterface& all, size_t i) {
        return IsEmbedding(all, all.outputs[i], all.output_names[i]);
      }},
     {Task::kSegmentation,
      [](const TaskInterface& all, size_t i) { return IsSegmentation(all, all.outputs[i]); }},
     {Task::kRegression,
      [](const TaskInterface& all, size_t i) { return IsRegression(all.outputs[i]); }}}};

bool HasRows(const TaskInterface& interface, const Output& output) {
  return !output.values.empty() &&
         (output.IsPerSample(interface.batch_size) || IsOfOneSample(interface, output));
}

// Returns the task and the output that it is about; nothing if none fits.
std::optional<std::pair<Task, size_t>> Find(const TaskInterface& interface) {
  for (const auto& [task, fits] : kTests) {
    for (size_t i = 0; i < interface.outputs.size(); ++i) {
      if (HasRows(interface, interface.outputs[i]) && fits(interface, i)) return std::pair(task, i);
    }
  }
  return std::nullopt;
}

// Returns whether an output of several has the scores of classes. The few numbers of a box and
// those of many steps look like these, but do not add up to 1.
bool HasClasses(const TaskInterface& interface, const Output& output, bool is_classifier) {
  constexpr int64_t kManyClasses = 16;
  if (!output.HasClassScores(interface.batch_size)) return false;
  return (is_classifier && output.dims[1] >= kManyClasses) ||
         EachRow(output.values, static_cast<size_t>(output.dims[1]), AreProbabilities);
}

// Returns the output that a named task is about: the one that the settings name, the first that
// fits, else the first of floats.
size_t OutputFor(const TaskSpec& spec, const TaskInterface& interface) {
  const std::string name = spec.Text("output");
  for (size_t i = 0; i < interface.outputs.size(); ++i) {
    if (!name.empty() && interface.output_names[i] == name) return i;
  }
  if (!name.empty()) {
    Fail(ErrorCode::kInvalidArgument, "the model has no output '{}'{}; it has {}", name,
         DidYouMean(name, interface.output_names), Join(interface.output_names, ", "));
  }
  for (const auto& [task, fits] : kTests) {
    if (task != spec.task) continue;
    for (size_t i = 0; i < interface.outputs.size(); ++i) {
      if (!interface.outputs[i].values.empty() && fits(interface, i)) return i;
    }
  }
  for (size_t i = 0; i < interface.outputs.size(); ++i) {
    const Output& output = interface.outputs[i];
    const bool has_classes = spec.task == Task::kSegmentation && !output.integers.empty();
    const bool fits = spec.task != Task::kClasses || output.HasClassScores(interface.batch_size) ||
                      output.IsOneRow(interface.batch_size);
    if ((!output.values.empty() && fits) || has_classes) return i;
  }
  Fail(ErrorCode::kInvalidArgument, "the model has no output of numbers for the task {}",
       WordOf<Task>(kTaskWords, spec.task));
}

std::unique_ptr<TaskMeter> MakeMeter(Task task, const TaskSpec& spec, size_t output,
                                     const TaskInterface& interface) {
  switch (task) {
    case Task::kClasses:
      return MakeClassMeter(output);
    case Task::kEmbedding: {
      // Tokens make one vector of a text. Other rows are vectors of their own.
      TaskSpec pooled = spec;
      pooled.settings.emplace("pool", interface.reads_tokens ? "mean" : "none");
      return MakeEmbeddingMeter(pooled, output, interface.hints.texts);
    }
    case Task::kSegmentation:
      return MakeSegmentationMeter(spec, output);
    case Task::kText:
      return MakeTextMeter(spec, output, interface.hints.characters);
    default:
      return MakeRegressionMeter(spec, output);
  }
}

// Returns the middle rank of each value, from 0.
std::vector<double> RanksOf(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (size_t i = first; i <= last; ++i) {
      ranks[order[i]] = static_cast<double>(first + last) / 2;
    }
    first = last + 1;
  }
  return ranks;
}

}  // namespace

std::string TaskSpec::Text(std::string_view key, std::string fallback) const {
  const auto found = settings.find(key);
  return found == settings.end() ? std::move(fallback) : found->second;
}

double TaskSpec::Number(std::string_view key, double fallback) const {
  const auto found = settings.find(key);
  return found == settings.end() ? fallback
                                 : ParseDouble(found->second, fmt::format("task setting {}", key));
}

double TaskSpec::Number(std::string_view key, double fallback, double least, double most) const {
  const double number = Number(key, fallback);
  // NaN fails each comparison.
  if (!(number >= least && number <= most)) {
    Fail(ErrorCode::kInvalidArgument, "task setting {} is {}, expected a number from {} to {}", key,
         Text(key), least, most);
  }
  return number;
}

int64_t TaskSpec::Integer(std::string_view key, int64_t fallback, int64_t least,
                          int64_t most) const {
  const double number = Number(key, static_cast<double>(fallback));
  // NaN fails each comparison.
  if (!(number >= static_cast<double>(least) && number <= static_cast<double>(most) &&
        number == std::floor(number))) {
    Fail(ErrorCode::kInvalidArgument, "task setting {} is {}, expected an integer from {} to {}",
         key, Text(key), least, most);
  }
  return static_cast<int64_t>(number);
}

TaskSpec ParseTask(std::string_view text) {
  TaskSpec spec;
  const size_t colon = text.find(':');
  const std::string_view word = Trim(text.substr(0, colon));
  if (!word.empty()) spec.task = ParseWord<Task>(kTaskWords, word, "task");
  if (colon == std::string_view::npos) return spec;
  const std::vector<std::string> known = SettingsOf(spec.task);
  for (const std::string& part : Split(text.substr(colon + 1), ',')) {
    const size_t at = part.find('=');
    const std::string key(Trim(std::string_view(part).substr(0, at)));
    if (at == std::string::npos || std::ranges::find(known, key) == known.end()) {
      Fail(ErrorCode::kInvalidArgument, "task {} has no setting '{}'{}; write {}:KEY=VALUE with {}",
           word, key, DidYouMean(key, known), word,
           known.empty() ? "no key, it has no settings" : "one of " + Join(known, ", "));
    }
    std::string value(Trim(std::string_view(part).substr(at + 1)));
    if (!spec.settings.emplace(key, std::move(value)).second) {
      Fail(ErrorCode::kInvalidArgument, "task setting {} is given twice", key);
    }
  }
  return spec;
}

TaskMeasure MakeTaskMeasure(const TaskSpec& spec, const TaskInterface& interface) {
  if (spec.task == Task::kNone) return {};
  if (spec.task == Task::kFind || spec.task == Task::kDetection) {
    std::string layout = spec.Text("layout");
    if (!layout.empty() && std::ranges::find(kBoxLayouts, layout) == kBoxLayouts.end()) {
      const std::vector<std::string> known(kBoxLayouts.begin(), kBoxLayouts.end());
      Fail(ErrorCode::kInvalidArgument, "layout '{}' is not one of {}{}", layout, Join(known, "|"),
           DidYouMean(layout, known));
    }
    // Classes of many steps might be taken for many boxes with few fields.
    const bool has_steps = spec.task == Task::kFind &&
                           std::ranges::any_of(interface.outputs, [&](const Output& output) {
                             return !output.values.empty() && HasClassesAtSteps(interface, output);
                           });
    if (layout.empty() && !has_steps) layout = FindBoxLayout(interface);
    if (!layout.empty()) {
      TaskSpec fitted = spec;
      if (!interface.hints.fit.empty()) fitted.settings.emplace("fit", interface.hints.fit);
      return {MakeDetectionMeter(fitted, layout)};
    }
    if (spec.task == Task::kDetection) {
      Fail(ErrorCode::kInvalidArgument,
           "it is not clear how the outputs hold boxes: say it, --task detection:layout=yolo8 "
           "(yolo5, yolo8, yolox, end2end, apart or centermap)");
    }
  }
  const auto measure = [&](Task task, size_t output) -> TaskMeasure {
    return {MakeMeter(task, spec, output, interface), output};
  };
  if (spec.task != Task::kFind) return measure(spec.task, OutputFor(spec, interface));
  const auto found = Find(interface);
  return found ? measure(found->first, found->second) : TaskMeasure();
}

std::vector<TaskMeasure> MakeHeadMeasures(const TaskInterface& interface,
                                          std::optional<size_t> measured, bool is_classifier) {
  std::vector<TaskMeasure> heads;
  for (size_t i = 0; i < interface.outputs.size(); ++i) {
    const Output& output = interface.outputs[i];
    if (measured == i || output.values.empty()) continue;
    const auto test = std::ranges::find_if(kTests, [&](const auto& row) {
      return HasRows(interface, output) && row.second(interface, i);
    });
    TaskMeasure& head = heads.emplace_back();
    head.output = i;
    if (test != kTests.end()) {
      head.meter = MakeMeter(test->first, {}, i, interface);
    } else if (HasClasses(interface, output, is_classifier)) {
      head.meter = MakeClassMeter(i);
    }
  }
  return heads;
}

std::unique_ptr<TaskMeter> ReadMeter(Task task, ByteReader& reader) {
  std::unique_ptr<TaskMeter> meter =
      task == Task::kDetection ? MakeDetectionMeter({}, "") : MakeMeter(task, {}, 0, {});
  meter->Read(reader);
  return meter;
}

void FailOtherSettings() {
  Fail(ErrorCode::kInvalidArgument, "they were not measured with the same settings of the task");
}

bool HasTextInSteps(const TaskInterface& interface, size_t output) {
  return IsText(interface, SamplesFirst(interface.outputs[output]));
}

Output SamplesFirst(const Output& output) {
  const auto num_steps = static_cast<size_t>(output.dims[0]),
             num_samples = static_cast<size_t>(output.dims[1]),
             size = static_cast<size_t>(output.dims[2]);
  Output turned{.dims = {output.dims[1], output.dims[0], output.dims[2]}, .values = {}};
  turned.values.reserve(output.values.size());
  for (size_t i = 0; i < num_samples; ++i) {
    for (size_t step = 0; step < num_steps; ++step) {
      const auto row = output.Row(step * num_samples + i, num_steps * num_samples);
      turned.values.insert(turned.values.end(), row.begin(), row.end());
    }
  }
  BITPRESS_DCHECK(turned.values.size() == num_steps * num_samples * size);
  return turned;
}

std::vector<TaskSample> SamplesOfRun(const std::vector<std::string>& names, size_t num_samples,
                                     size_t size, const std::vector<const Output*>& outputs,
                                     const std::vector<const Output*>& reference) {
  const auto part = [&](const Output& output, size_t row) {
    SampleOutput sample{output.dims, output.values, output.integers};
    if (!output.IsPerSample(size)) return sample;
    sample.dims.erase(sample.dims.begin());
    const size_t count = output.values.size() / size, integers = output.integers.size() / size;
    sample.values = sample.values.subspan(row * count, count);
    sample.integers = sample.integers.subspan(row * integers, integers);
    return sample;
  };
  std::vector<TaskSample> samples(num_samples);
  for (size_t row = 0; row < num_samples; ++row) {
    if (row < names.size()) samples[row].name = names[row];
    for (const Output* output : outputs) samples[row].outputs.push_back(part(*output, row));
    for (const Output* output : reference) samples[row].reference.push_back(part(*output, row));
  }
  return samples;
}

double RankCorrelation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> ranks_a = RanksOf(a), ranks_b = RanksOf(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    square_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    square_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (square_a == 0 || square_b == 0) return square_a == square_b ? 1 : 0;
  return product / std::sqrt(square_a * square_b);
}

std::map<std::string, std::string> ReadColumn(const std::filesystem::path& csv,
                                              const std::string& column) {
  std::map<std::string, std::string> labels;
  for (data::NamedField& row : data::LoadColumn(csv, column)) {
    labels.emplace(std::move(row.file), std::move(row.text));
  }
  return labels;
}

std::string NoLabelIn(const std::string& file) {
  return fmt::format("no sample has a label in '{}'", file);
}

const std::string* LabelOf(const std::map<std::string, std::string>& labels,
                           const std::string& sample) {
  auto found = labels.find(sample);
  if (found == labels.end()) {
    found = labels.find(PathText(PathOf(sample).filename()));
  }
  return found == labels.end() ? nullptr : &found->second;
}

}  // namespace bitpress::evaluate
