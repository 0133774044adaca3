// Measures runs of a model beside those of a reference: the closeness of their outputs, their
// classes, and their boxes, masks, texts or numbers in the terms of a task. It has no session, so
// that whoever runs the models may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "data/source.h"
#include "evaluate/evaluate.h"
#include "evaluate/outputs.h"
#include "evaluate/state.h"
#include "evaluate/task.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// These are as in EvaluateOptions.
struct RunMeterSettings {
  TaskSpec task = {};
  std::string class_output = {};
  std::optional<size_t> output_index = std::nullopt;
  TaskHints hints = {};
  bool reads_tokens = false;
  std::function<void(const TaskPicture&)> on_picture = {};
  size_t most_pictures = 0;
};

// One run of `size` samples, of which the last ones may be padding.
struct MeasuredRun {
  const data::Batch& batch;           // the samples
  const std::vector<Tensor>& inputs;  // in the order of the model's
  size_t size = 1;
  const std::vector<Output>& outputs;
  std::vector<const Output*> wanted = {};  // the reference's, in the order of `outputs`; or none
  bool is_task_measured = true;
};

class RunMeter {
 public:
  // Takes the inputs and outputs of the model. What the outputs are follows from the first run.
  // Throws Error(kIo) if a file that the settings of the task name cannot be read.
  RunMeter(RunMeterSettings settings, std::vector<runtime::ValueDescription> inputs,
           std::vector<runtime::ValueDescription> outputs);

  // Adds a run, and to `counts` what is counted of it. Throws Error if a label lies beyond the
  // classes, or if outputs cannot be compared.
  void Add(const MeasuredRun& run, EvaluationState& counts);

  // Returns whether an Error of Add was about the measures, and not about the samples of the run.
  bool is_choosing() const { return is_choosing_; }
  // Returns the index of the output with the class scores; nothing if there is none, or no more.
  std::optional<size_t> class_output() const { return class_index_; }
  // Adds the measures of the task and of the other outputs to a report. `counts` are those of all
  // runs.
  void AddTask(const EvaluationState& counts, EvaluationReport& report) const;
  // Returns what was counted for the task; nothing if none was measured.
  std::optional<TaskState> StateOfTask() const;

 private:
  void FindClasses(const MeasuredRun& run);
  void LeaveStepsOut(const MeasuredRun& run);
  void Compare(const MeasuredRun& run, EvaluationState& counts) const;
  void MeasureTask(const MeasuredRun& run);
  TaskInterface InterfaceOf(const MeasuredRun& run);
  bool MayCountStepsFirst(size_t output, const Output& of_run, size_t size) const;
  void ChooseMeasures(const TaskInterface& interface, const MeasuredRun& run);
  void Draw(const TaskSample& sample, const Tensor& images, size_t row);
  const Tensor* MaskOf(const std::vector<Tensor>& inputs) const;
  std::vector<HeadReport> HeadReports(const EvaluationState& counts,
                                      const std::optional<TaskReport>& task) const;
  void AddNoise(const EvaluationState& counts, size_t output,
                std::vector<HeadReport>& reports) const;

  RunMeterSettings settings_;
  std::vector<runtime::ValueDescription> inputs_, outputs_;
  uint64_t task_files_ = 0;  // FilesContent
  bool has_run_ = false, is_choosing_ = false;
  std::optional<size_t> class_index_;
  std::optional<int64_t> num_classes_;  // of that output in the first run
  TaskMeasure task_;
  std::vector<TaskMeasure> heads_;
  std::vector<size_t> steps_first_;  // outputs of texts that count steps before samples
  size_t num_pictures_ = 0;
};

}  // namespace bitpress::evaluate
