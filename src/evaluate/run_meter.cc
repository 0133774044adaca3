#include "evaluate/run_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "evaluate/class_scores.h"
#include "evaluate/metrics.h"

namespace bitpress::evaluate {
namespace {

// Returns height and width of the image that the first input holds, 0 if it is none.
std::pair<int64_t, int64_t> ImageSides(const std::vector<Tensor>& inputs) {
  if (inputs.empty() || inputs[0].dims.size() != 4) return {0, 0};
  const std::vector<int64_t>& dims = inputs[0].dims;
  const bool has_channels_last = dims[3] <= 4 && dims[1] > 4;
  return has_channels_last ? std::pair(dims[1], dims[2]) : std::pair(dims[2], dims[3]);
}

std::vector<int64_t> MaskRow(const Tensor& mask, size_t row) {
  const std::vector<int64_t> all = ToOutput(mask).integers;
  const auto size = static_cast<size_t>(mask.dims[1]);
  if (all.size() < (row + 1) * size) return {};
  const auto begin = all.begin() + static_cast<ptrdiff_t>(row * size);
  return {begin, begin + static_cast<ptrdiff_t>(size)};
}

uint64_t CountNonfinite(const MeasuredRun& run) {
  uint64_t num_nonfinite = 0;
  for (const Output& output : run.outputs) {
    const size_t counted = output.IsPerSample(run.size)
                               ? output.values.size() / run.size * run.batch.num_samples
                               : output.values.size();
    num_nonfinite += static_cast<uint64_t>(std::count_if(
        output.values.begin(), output.values.begin() + static_cast<ptrdiff_t>(counted),
        [](double value) { return !std::isfinite(value); }));
  }
  return num_nonfinite;
}

}  // namespace

RunMeter::RunMeter(RunMeterSettings settings, std::vector<runtime::ValueDescription> inputs,
                   std::vector<runtime::ValueDescription> outputs)
    : settings_(std::move(settings)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      task_files_(FilesContent(settings_.task)) {}

void RunMeter::Add(const MeasuredRun& run, EvaluationState& counts) {
  if (!has_run_) FindClasses(run);
  LeaveStepsOut(run);
  counts.num_nonfinite += CountNonfinite(run);
  if (!run.wanted.empty()) Compare(run, counts);
  if (class_index_) {
    const size_t index = *class_index_;
    CountClasses(run.outputs[index], run.wanted.empty() ? nullptr : run.wanted[index], run.batch,
                 run.size, outputs_[index].name, counts);
  }
  if (run.is_task_measured) MeasureTask(run);
  counts.num_samples = run.batch.num_samples;
  has_run_ = true;
}

void RunMeter::FindClasses(const MeasuredRun& run) {
  std::vector<const Output*> exact;  // quantized probabilities may add up to something else
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    exact.push_back(run.wanted.empty() ? &run.outputs[i] : run.wanted[i]);
  }
  class_index_ =
      FindClassOutput(outputs_, exact, run.size, settings_.class_output, !run.batch.labels.empty());
}

// Outputs whose length changes from sample to sample are steps of time, and no scores of classes.
void RunMeter::LeaveStepsOut(const MeasuredRun& run) {
  if (!class_index_ || !settings_.class_output.empty() || !run.batch.labels.empty()) return;
  const std::vector<int64_t>& dims = run.outputs[*class_index_].dims;
  const int64_t num_classes = dims[dims.size() == 1 ? 0 : 1];
  if (!num_classes_) num_classes_ = num_classes;
  if (num_classes_ != num_classes) class_index_.reset();
}

void RunMeter::Compare(const MeasuredRun& run, EvaluationState& counts) const {
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Output& found = run.outputs[i];
    const Output& reference = *run.wanted[i];
    // Outputs that are whole numbers, such as classes, indices and codes, have no distance.
    if (found.values.empty() || reference.values.empty()) continue;
    if (found.dims != reference.dims) {
      Fail(ErrorCode::kInvalidArgument,
           "output '{}' has the shape [{}], the reference's [{}]: they cannot be compared. "
           "Measure a network that chooses lengths, such as one that speaks, by a function of "
           "your own (metric= in Python)",
           outputs_[i].name, fmt::join(found.dims, ", "), fmt::join(reference.dims, ", "));
    }
    const bool per_sample = found.IsPerSample(run.size);
    const size_t num_rows = per_sample ? run.size : 1;
    for (size_t row = 0; row < (per_sample ? run.batch.num_samples : 1); ++row) {
      const auto reference_row = reference.Row(row, num_rows);
      const auto found_row = found.Row(row, num_rows);
      counts.outputs[i].Add(reference_row, found_row);
      if (settings_.output_index.value_or(i) == i) counts.all.Add(reference_row, found_row);
    }
  }
}

// Returns whether an output may be [steps, samples, classes]. Steps that are as many as samples are
// told from these by their declared number.
bool RunMeter::MayCountStepsFirst(size_t output, const Output& of_run, size_t size) const {
  const std::vector<int64_t>& dims = of_run.dims;
  const std::vector<int64_t>& declared = outputs_[output].dims;
  if (of_run.values.empty() || dims.size() != 3 || declared.size() != 3) return false;
  return dims[1] == static_cast<int64_t>(size) &&
         (dims[0] != dims[1] || (declared[0] > 0 && declared[1] < 0));
}

// Returns the interface as the first run shows it, with samples first.
TaskInterface RunMeter::InterfaceOf(const MeasuredRun& run) {
  TaskInterface interface;
  for (const auto& output : outputs_) interface.output_names.push_back(output.name);
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    interface.outputs.push_back(run.wanted.empty() ? run.outputs[i] : *run.wanted[i]);
  }
  interface.batch_size = run.size;
  interface.reads_tokens = settings_.reads_tokens || MaskOf(run.inputs) != nullptr;
  for (const Tensor& input : run.inputs) {
    const bool may_be_ids = input.type == DataType::kInt64 || input.type == DataType::kInt32;
    if (interface.num_tokens == 0 && may_be_ids && input.dims.size() == 2) {
      interface.num_tokens = input.dims[1];
    }
  }
  interface.reads_image = !run.inputs.empty() && run.inputs[0].dims.size() == 4;
  std::tie(interface.input_height, interface.input_width) = ImageSides(run.inputs);
  interface.hints = settings_.hints;
  steps_first_.clear();
  for (size_t i = 0; i < interface.outputs.size(); ++i) {
    Output& output = interface.outputs[i];
    if (!MayCountStepsFirst(i, output, run.size) || !HasTextInSteps(interface, i)) continue;
    steps_first_.push_back(i);
    output = SamplesFirst(output);
  }
  return interface;
}

// Adds a run to the measure of the task.
void RunMeter::MeasureTask(const MeasuredRun& run) {
  const Tensor* const mask = MaskOf(run.inputs);
  if (!has_run_) {
    is_choosing_ = true;
    ChooseMeasures(InterfaceOf(run), run);
    is_choosing_ = false;
  }
  if (!task_.meter && heads_.empty()) return;
  std::vector<Output> turned;  // holds what the samples show
  turned.reserve(2 * steps_first_.size());
  std::vector<const Output*> outputs, wanted = run.wanted;
  for (const Output& output : run.outputs) outputs.push_back(&output);
  for (const size_t i : steps_first_) {
    outputs[i] = &turned.emplace_back(SamplesFirst(*outputs[i]));
    if (!wanted.empty()) wanted[i] = &turned.emplace_back(SamplesFirst(*wanted[i]));
  }
  std::vector<TaskSample> samples =
      SamplesOfRun(run.batch.names, run.batch.num_samples, run.size, outputs, wanted);
  const auto [height, width] = ImageSides(run.inputs);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (mask != nullptr) samples[i].mask = MaskRow(*mask, i);
    samples[i].input_height = height;
    samples[i].input_width = width;
    if (task_.meter) task_.meter->Add(samples[i]);
    for (const TaskMeasure& head : heads_) {
      if (head.meter) head.meter->Add(samples[i]);
    }
    if (height > 0) Draw(samples[i], run.inputs[0], i);
  }
}

// Hands over the picture of a sample with what the task found in it.
void RunMeter::Draw(const TaskSample& sample, const Tensor& images, size_t row) {
  if (!settings_.on_picture || !task_.meter || sample.reference.empty() ||
      num_pictures_ >= settings_.most_pictures || !IsFloat(images.type) ||
      images.dims[0] <= static_cast<int64_t>(row)) {
    return;
  }
  TaskPicture picture{.name = sample.name, .drawing = task_.meter->Draw(sample)};
  if (picture.drawing.boxes.empty() && picture.drawing.mask.empty()) return;
  const auto size = static_cast<size_t>(images.num_elements() / images.dims[0]);
  picture.dims = {images.dims.begin() + 1, images.dims.end()};
  picture.pixels = RowOf(images, row, size);
  settings_.on_picture(picture);
  ++num_pictures_;
}

// Chooses the measure of the task, and those of the outputs that it is not about. Who names a
// task says what counts.
void RunMeter::ChooseMeasures(const TaskInterface& interface, const MeasuredRun& run) {
  task_ = MakeTaskMeasure(settings_.task, interface);
  const Task task = settings_.task.task;
  const bool is_named = task != Task::kFind && task != Task::kNone;
  const bool reads_all = task_.meter && !task_.output;
  heads_.clear();
  if (run.wanted.empty() || is_named || reads_all || settings_.output_index) return;
  const bool has_classes = class_index_ && (!run.batch.labels.empty() || !task_.meter);
  heads_ = MakeHeadMeasures(interface, has_classes ? class_index_ : task_.output, has_classes);
  if (task != Task::kNone) return;
  for (TaskMeasure& head : heads_) head.meter.reset();
}

// Returns the input that says which tokens count; null: there is none.
const Tensor* RunMeter::MaskOf(const std::vector<Tensor>& inputs) const {
  for (size_t i = 0; i < std::min(inputs.size(), inputs_.size()); ++i) {
    if (inputs_[i].name == "attention_mask" && inputs[i].dims.size() == 2) return &inputs[i];
  }
  return nullptr;
}

void RunMeter::AddTask(const EvaluationState& counts, EvaluationReport& report) const {
  if (task_.meter) report.task = task_.meter->Result();
  report.heads = HeadReports(counts, report.task);
}

std::optional<TaskState> RunMeter::StateOfTask() const {
  if (!task_.meter) return std::nullopt;
  ByteWriter counts;
  task_.meter->Write(counts);
  return TaskState{.task = settings_.task.task,
                   .settings = SettingsText(settings_.task),
                   .output = task_.output ? outputs_[*task_.output].name : "",
                   .counts = std::move(counts.bytes()),
                   .files = task_files_};
}

// Returns the losses of the heads. An output that is 0 in the reference has none.
std::vector<HeadReport> RunMeter::HeadReports(const EvaluationState& counts,
                                              const std::optional<TaskReport>& task) const {
  std::vector<HeadReport> reports;
  for (const TaskMeasure& head : heads_) {
    const TaskReport report = head.meter ? head.meter->Result() : TaskReport();
    if (report.loss) {
      reports.push_back({outputs_[*head.output].name, *report.loss, report.loss_name});
    } else {
      AddNoise(counts, *head.output, reports);
    }
  }
  // The task's own output counts as any other where the task says nothing.
  const bool is_silent = task && task_.output && !task->loss;
  if (!heads_.empty() && is_silent) AddNoise(counts, *task_.output, reports);
  return reports;
}

void RunMeter::AddNoise(const EvaluationState& counts, size_t output,
                        std::vector<HeadReport>& reports) const {
  const OutputComparison& comparison = counts.outputs[output];
  const double noise = comparison.NoiseRatio();
  if (!std::isfinite(noise) && !comparison.has_lost()) return;
  reports.push_back({outputs_[output].name, noise, "noise"});
}

}  // namespace bitpress::evaluate
