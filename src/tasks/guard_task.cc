#include "tasks/guard_task.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "calibrate/piece_runs.h"
#include "calibrate/sample_runs.h"
#include "evaluate/batches.h"
#include "evaluate/language.h"
#include "evaluate/measured_loss.h"
#include "evaluate/run_meter.h"
#include "tasks/task_hints.h"

namespace bitpress::tasks {
namespace {

struct Interface {
  evaluate::RunMeterSettings settings;
  std::vector<runtime::ValueDescription> inputs, outputs;
  std::optional<data::TokenInputs> tokens;
  size_t fixed_rows = 0;  // samples of a run; 0: it has one sample
};

std::vector<evaluate::Output> ToOutputs(const std::vector<Tensor>& tensors) {
  std::vector<evaluate::Output> outputs;
  for (const Tensor& tensor : tensors) outputs.push_back(evaluate::ToOutput(tensor));
  return outputs;
}

// Returns whether a run has so many samples. Otherwise its inputs are those of one: states of
// recurrent layers may declare a first dimension that is none of a batch.
bool HasRows(const std::vector<Tensor>& inputs, size_t num_rows) {
  return num_rows > 0 && std::ranges::all_of(inputs, [&](const Tensor& input) {
           return !input.dims.empty() && input.dims[0] == static_cast<int64_t>(num_rows);
         });
}

class Meter : public calibrate::TaskLossMeter {
 public:
  explicit Meter(std::shared_ptr<const Interface> interface)
      : interface_(std::move(interface)),
        runs_(interface_->settings, interface_->inputs, interface_->outputs) {}

  void Add(const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted,
           const std::vector<Tensor>& found) override {
    if (counts_.num_samples == 0) has_logits_ = HasLogits(inputs, wanted);
    if (has_logits_) return;
    const std::vector<evaluate::Output> outputs = ToOutputs(found), references = ToOutputs(wanted);
    data::Batch batch;
    batch.num_samples = HasRows(inputs, interface_->fixed_rows) ? interface_->fixed_rows : 1;
    evaluate::MeasuredRun run{batch, inputs, batch.num_samples, outputs};
    for (const evaluate::Output& output : references) run.wanted.push_back(&output);
    evaluate::EvaluationState of_run;
    of_run.outputs.resize(outputs.size());
    runs_.Add(run, of_run);
    counts_.Merge(of_run);
    if (!runs_.class_output()) counts_.agreements = {}, counts_.expected = {};
  }

  std::optional<MeasuredLoss> Result() const override {
    if (counts_.num_samples == 0) return std::nullopt;
    evaluate::EvaluationState counts = counts_;
    for (const auto& output : interface_->outputs) counts.output_names.push_back(output.name);
    if (const auto classes = runs_.class_output()) {
      counts.class_output = counts.output_names[*classes];
    }
    evaluate::EvaluationReport report = evaluate::ReportOf(counts);
    runs_.AddTask(counts, report);
    const std::optional<MeasuredLoss> first = evaluate::FirstLossOf(report);
    // Without probabilities, nothing says that the largest of some numbers is a class.
    const bool is_guess = first && first->measure == "agreement" &&
                          interface_->settings.task.task == evaluate::Task::kFind;
    if (!first && report.task && !report.task->why_no_loss.empty()) {
      return MeasuredLoss{.measure = report.task->task, .items = "items"};  // none yet
    }
    if (!first || is_guess) return std::nullopt;
    if (report.task && report.task->strict_loss && report.task->loss_name == first->measure) {
      return MeasuredLoss{*report.task->strict_loss, report.task->strict_loss_name};
    }
    return MeasuredLoss{evaluate::LossOf(report)->loss, first->measure, first->items,
                        first->num_items};
  }

  std::string WhyNone() const override {
    if (has_logits_) return "few samples say little of a language model";
    return "no output is of a task that is known by itself; --task names one";
  }

 private:
  // Few tokens say little of a language model.
  bool HasLogits(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    if (!interface_->tokens) return false;
    std::vector<std::string> names;
    for (const auto& output : interface_->outputs) names.push_back(output.name);
    const Tensor ids = evaluate::IdsOf(*interface_->tokens, inputs);
    return evaluate::LanguageMeter::FindLogits(names, outputs, ids).has_value();
  }

  std::shared_ptr<const Interface> interface_;
  evaluate::RunMeter runs_;
  evaluate::EvaluationState counts_;
  bool has_logits_ = false;
};

}  // namespace

calibrate::TaskMeterMaker GuardTask(const std::string& task, const graph::Model& model,
                                    const RunOptions& run) {
  auto interface = std::make_shared<Interface>();
  interface->settings.task = evaluate::ParseTask(task);
  if (interface->settings.task.task == evaluate::Task::kNone) return {};
  interface->settings.task.settings.erase("labels");
  const data::SourceOptions source = SourceFor(model, run);
  interface->settings.hints = HintsOf(model, source);
  interface->settings.reads_tokens = source.tokens.has_value();
  if (source.tokens) interface->tokens = source.tokens->inputs;
  interface->inputs = calibrate::InputsOf(model);
  interface->fixed_rows = calibrate::FixedRows(interface->inputs);
  interface->outputs = calibrate::OutputsOf(model);
  return [interface = std::shared_ptr<const Interface>(std::move(interface))] {
    return std::make_unique<Meter>(interface);
  };
}

}  // namespace bitpress::tasks
